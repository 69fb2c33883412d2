"""Tests that Django runs: `manage.py test shop.checks.…`."""
