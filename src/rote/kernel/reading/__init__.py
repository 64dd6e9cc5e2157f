"""What is and was: entities, history, indexes, queries."""
