"""Pages for people: what runs did, as HTML in which nothing of the data is more than text."""
