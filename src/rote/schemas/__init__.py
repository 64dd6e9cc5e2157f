"""Schemas that stored values must conform to. Pure: the caller reads registry, schemas and values."""
