"""The courier: what Redis should hold for RQ's workers, brought there and kept there.

What that is is a function of the database (core/messages.py): whatever Redis loses can be brought again, by anybody, at
any time. Nothing is ever read from Redis that decides anything.
"""
