"""The Flask app of a process for runs: the import of this module loads what FLASK_APP names."""

from ostinato.flask.attaching import load

load()
