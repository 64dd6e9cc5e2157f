"""HTTP in front of a store: every command and some routes for people, for those who may."""
