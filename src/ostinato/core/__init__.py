"""The rules: pure functions from values to values, without I/O.

Time and chance are arguments. Nothing here imports other packages of Ostinato.
"""
