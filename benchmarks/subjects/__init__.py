"""One module for each subject, run as `python -m benchmarks.subjects.NAME VERB [COUNT]` by its own Python.

A subject has these verbs: `setup` creates its tables, and `fill` enqueues many jobs in its fastest way. `single` and
`bulk` enqueue jobs to be timed, and `send` enqueues them one by one with pauses. `work` runs a worker until a signal.
`recur` runs a number of schedules of one second for a while.
"""
