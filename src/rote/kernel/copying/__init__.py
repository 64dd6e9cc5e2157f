"""A space out of one store and into another."""
