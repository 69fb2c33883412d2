"""The rules of crawling: the identity of pages, the scope of a crawl, and its pauses.

Pure functions, like all of `core`: they fetch nothing and know no database.
"""
