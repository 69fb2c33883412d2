"""The store: the only room that knows SQL.

It is synchronous, with SQLite and PostgreSQL behind one `Database`. It wraps transactions around rules and decides
nothing itself.
"""
