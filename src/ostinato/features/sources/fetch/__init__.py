"""The work of the task `fetch`: it stores a source in its table, page by page.

`page` requests a page and holds its body, and `records` finds its records and makes rows of them. `run` stores the rows
by calls to the worker, and fetches the next page meanwhile. Parsing, mapping and storing use threads; only the network
is on the loop.
"""
