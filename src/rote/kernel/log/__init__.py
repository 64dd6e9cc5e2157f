"""What is stored and hashed, and the one way to append to it."""
