"""`python -m ostinato.rq`: one RQ worker of a `Crew` (processes.py), with its order on stdin."""

import json
import sys

from ostinato.core.errors import OstinatoError
from ostinato.rq.processes import join

if __name__ == "__main__":
    try:
        join(json.load(sys.stdin))
    except OstinatoError as error:
        sys.exit(str(error))
