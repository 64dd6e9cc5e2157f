"""Sessions: commits that a writer sees before they are decided, and the desk that decides them."""
