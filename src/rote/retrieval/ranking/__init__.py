"""Which memories answer best, by the policies of ranking? Frozen as `lexical-1`."""
