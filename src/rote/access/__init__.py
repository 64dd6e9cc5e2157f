"""Who may do what: principals, rights, rules of access. Pure: no clock, no randomness, no store."""
