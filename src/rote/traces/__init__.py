"""Traces: what a run read, called and produced, in a form that can be checked and compared. Pure."""
