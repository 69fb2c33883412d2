"""The work of built-in tasks that have no folder in `features` yet."""
