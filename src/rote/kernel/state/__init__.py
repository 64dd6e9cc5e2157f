"""What is held in memory of a space between calls."""
