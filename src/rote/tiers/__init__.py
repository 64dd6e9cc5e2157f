"""Tiers: where the state of a workflow may live, and who may touch it."""
