"""Which process a connection belongs to: none may be used on the other side of a fork."""

import os

# Grows with every fork: what was opened under another length belongs to a parent process.
FORKS: list[None] = []
# Connections of a parent process, kept for ever so that nothing in a child closes them.
INHERITED: dict[int, object] = {}

os.register_at_fork(after_in_child=lambda: FORKS.append(None))
