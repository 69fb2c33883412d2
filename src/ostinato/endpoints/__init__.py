"""Endpoints: the one table of all that can be asked and ordered, for HTTP and for the command line.

An endpoint is a function with its method, path and role (table.py). `rest` makes FastAPI routes of the table; a command
without a server calls the same functions in its own process. Modules that read only answers and queries do without
pydantic and FastAPI, so that everyday commands start fast; those with request bodies need pydantic.
"""
