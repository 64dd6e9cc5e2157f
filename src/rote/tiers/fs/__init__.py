"""Files below one folder: which path is which file, and how it is opened, read and replaced.

    adapter       the verbs of a host
    files         one folder that is open, and what is done to the files in it
    paths         the names that a path may have (pure)

No path is ever handed to the system: every step opens one name below an open folder.
"""

from rote.tiers.fs.adapter import VERBS, Files, open_fs

__all__ = ["VERBS", "Files", "open_fs"]
