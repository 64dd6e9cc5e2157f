"""Results of queries as they change."""
