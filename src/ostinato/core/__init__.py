"""The rules. Pure: no I/O, no clock, no chance; values in, values out.

Time and chance are arguments. Nothing here imports anything else of Ostinato.
"""
