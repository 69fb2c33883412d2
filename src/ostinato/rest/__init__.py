"""The REST API: endpoints parse a request (shapes), call the service, and answer (shapes). No rules, no SQL.

`app.create_app` builds the application: a list of routers, one authentication, one way to answer errors. Endpoints
are plain functions that run on threads, because the store is synchronous.
"""
