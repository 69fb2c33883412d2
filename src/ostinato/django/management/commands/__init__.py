"""`manage.py ostinato`."""
