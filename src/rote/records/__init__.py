"""The memory contract on top of a space: records with metadata, filters and retention."""
