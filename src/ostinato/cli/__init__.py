"""The command line: commands send requests to the API, or call the app, and print the answers.

It holds no rules and no SQL. Commands import modules when they are called, because `--help` must be quick.
An error is one sentence on stderr and an exit code, never a traceback:

    0 done · 1 a check found a problem · 2 bad input · 3 not found · 4 conflict · 5 no database, or no server
"""
