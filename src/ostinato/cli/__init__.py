"""The command line: words and flags become requests to the API (verbs) or calls of the app, answers become text.

No rule and no SQL lives here. Commands import what they need when they are called: `--help` must be quick.
An error is one sentence on stderr and an exit code, never a traceback:

    0 done · 1 a check found something · 2 bad input · 3 not found · 4 conflict · 5 no database, or no server
"""

from ostinato.cli.main import main

__all__ = ["main"]
