"""Authentication by tokens, API keys and cookie sessions, for the REST API and the dashboard.

It recognises the caller of a request. The caller's role decides what it may do (core/access.py).
"""
