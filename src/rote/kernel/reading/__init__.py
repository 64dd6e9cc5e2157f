"""Reading the present and the past: entities, history, indexes, queries."""
