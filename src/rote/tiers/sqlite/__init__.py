"""Tables of one SQLite file: statements are judged and run in a worker process that can be killed.

    adapter       the verbs of a host
    process       the worker as a host sees it: started, asked, killed
    values        parameters and results (pure)
  in the worker, which loads the driver and these alone:
    worker        its loop: a request, a reply
    statements    one connection, on which one statement at a time is run
    judge         what a statement touches, and whether it may
    words         the beginning and the end of a statement's text (pure)

Nothing is imported here, because the worker would pay for it.
"""
