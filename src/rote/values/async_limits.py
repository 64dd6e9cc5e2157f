"""Limits of the async face. They bound work and time; no hash and no answer depends on them."""

# Threads of a store on which the calls of its async face run.
THREADS_DEFAULT = 16
THREADS_MAX = 1000
