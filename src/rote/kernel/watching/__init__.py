"""Watches: results of queries, followed as they change."""
