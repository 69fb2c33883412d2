"""The rules, as tables of values and as properties."""
