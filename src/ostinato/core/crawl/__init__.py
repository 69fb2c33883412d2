"""The rules of crawling: which URLs are one page, which are in scope, what a job may say about it, when to rest.

Pure, like all of `core`: it fetches nothing and knows no database.
"""
