"""Rules of access: rights, paths, the ACL of a space, delegations, tokens and signed requests.

Pure: time, randomness and everything that is stored come in as arguments. What is malformed, unknown
or undecided is refused.
"""
