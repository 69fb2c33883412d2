"""Runs in processes of their own, which can be stopped, limited and measured.

    worker -- guardian -- supervisor -- children (one run at a time each) -- processes of the run
    worker <--socket--> supervisor <--socket, stdout, stderr-- children

The pool is the worker's side. This package uses neither the database nor the rules about outcomes. The supervisor has
one thread, because a process with threads cannot fork safely. It starts the children, measures their usage, and ends
them with all their descendants. It does so too when the worker ends. The guardian does so when the supervisor ends.
"""
