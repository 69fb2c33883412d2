"""The HTTP door: parse (wire), ask the front desk, answer (wire). No rule, no SQL.

`app.create_app` puts it together: a list of routers, one doorkeeper, one way to answer errors. Endpoints are plain
functions, run on threads, as the store is synchronous.
"""
