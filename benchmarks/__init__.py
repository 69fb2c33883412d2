"""Benchmarks of Ostinato and its peers, in one run on the same machine (`make bench`).

Each subject (Ostinato, the raw prototype, a peer) is a module of `subjects/`, run by its own Python in its own process.
It is measured from outside: by the marks that its jobs write to a file, and by its store. Rounds are interleaved and
shuffled, so that a busy moment of the machine affects all subjects.

    __main__.py       the command            environments.py   a virtualenv for each peer
    catalogue.py      the subjects           servers.py        PostgreSQL and Redis, from wheels
    measures/         the measures           targets.py        the targets
    report.py         tables                 page.py, charts.py   docs/benchmarks.md and docs/images/
"""
