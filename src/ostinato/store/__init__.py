"""The memory: the only room that knows SQL.

Synchronous; SQLite and PostgreSQL behind one `Database`. It wraps transactions around rules; it decides nothing.
"""
