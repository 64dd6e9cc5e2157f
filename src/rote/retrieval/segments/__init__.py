"""Segments: the index `words/1`, from the changes of records to the scores of memories."""
