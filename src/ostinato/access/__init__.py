"""Authentication: tokens, API keys and cookie sessions, for every door on the network.

It recognises a caller by what a request brings along; what a caller may do is said by its role (core/access.py).
"""
