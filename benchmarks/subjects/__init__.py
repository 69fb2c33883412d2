"""One module for each subject, run as `python -m benchmarks.subjects.NAME VERB [COUNT]` by its own Python.

A subject knows these verbs: `setup` makes its tables, `fill` puts many jobs into the queue in the fastest way it has,
`single` and `bulk` do so to be timed, `send` one by one with pauses, `work` works until it is told to stop, `recur`
keeps so many schedules of one second for a while.
"""
