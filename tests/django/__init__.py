"""Ostinato in a real Django project, on both databases: `project` is one, with tests that Django runs."""
