"""Measurements: ours beside the peers, in one run, on the same machine.

`make bench` prints a table. Each subject (ourselves, a peer) is a script of its own in `subjects/`, run by its own
Python in its own process; what it does is measured from outside, by the marks that its tasks leave in a file.
"""
