"""Measurements: ours beside the peers, in one run, on the same machine (`make bench`).

Each subject (ourselves, the raw prototype, a peer) is a module of `subjects/`, run by a Python of its own in a
process of its own. What it does is measured from outside: by the marks that its jobs leave in a file, and by what its
store shows. Rounds are interleaved and shuffled, so that a busy moment of the machine hits every subject.

    __main__.py       the command            environments.py   a virtualenv for each peer
    catalogue.py      who is measured        servers.py        PostgreSQL and Redis, from wheels
    measures/         what is measured       targets.py        what we want to reach
    report.py         tables                 page.py, charts.py   docs/benchmarks.md and docs/images/
"""
