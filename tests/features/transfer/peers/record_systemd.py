"""Record what `systemd-analyze calendar` says of calendar expressions, over a year with two clock changes.

It needs a machine with systemd, and nothing else:

    cd tests/features/transfer/peers && python record_systemd.py > systemd.json

`times` are the elapses from `BEGIN` on, in seconds since 1970.
"""

import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta

BEGIN = datetime(2027, 1, 1, tzinfo=UTC)  # clocks of Paris change on 28 March and 31 October
YEAR = timedelta(days=365)
MOST = 740
ELAPSE = re.compile(r"(?:Next elapse|Iter\. #\d+): \w+ (\S+ \S+) UTC")

EXPRESSIONS = [
    "daily", "weekly", "monthly", "quarterly", "semiannually", "yearly", "*-*-* 6,18:00", "Sun *-*-* 03:10:00",
    "Mon..Fri 08:30", "Sat,Sun 10:00", "*-*-01 04:00:00", "*-01/4-1,15 05:05", "00/12:30",
    "*-*-1/10 07:00", "02:30 Europe/Paris", "02:00/20 Europe/Paris", "*:30 Europe/Paris", "Mon 08:00 Europe/Paris",
    "*-*-* 09..17/4:15:00",
]  # fmt: skip


def times_of(expression):
    base = f"{BEGIN - timedelta(seconds=1):%Y-%m-%d %H:%M:%S} UTC"
    command = ["systemd-analyze", "calendar", f"--iterations={MOST}", f"--base-time={base}", expression]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | {"TZ": "UTC"})
    found = [datetime.fromisoformat(at).replace(tzinfo=UTC) for at in ELAPSE.findall(done.stdout)]
    return [at.timestamp() for at in found if at <= BEGIN + YEAR]


def main():
    version = subprocess.run(["systemd-analyze", "--version"], capture_output=True, text=True, check=True).stdout
    times = {each: times_of(each) for each in EXPRESSIONS}
    json.dump({"version": version.splitlines()[0], "begin": BEGIN.timestamp(), "times": times}, sys.stdout)


if __name__ == "__main__":
    main()
