"""Runs in processes of their own, which can really be stopped, limited and accounted for.

    worker -- guardian -- supervisor -- children (one run at a time each) -- what they start
    worker <--socket--> supervisor <--socket, stdout, stderr-- children

The pool is the worker's side of it. Here nobody knows the database, nor what an outcome leads to. The supervisor is a
process with one thread, so that it may fork; it starts the children, watches over what they use, and ends them with all
that they started. When the worker is gone, so are they; when the supervisor is, its guardian sees to that.
"""
