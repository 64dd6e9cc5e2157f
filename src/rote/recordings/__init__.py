"""Recordings: replies of tools, models and adapters that are kept, and given again in a replay."""
