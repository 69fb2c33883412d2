"""The rules. Pure: no I/O, no clock, no luck; values in, values out.

Time and luck are arguments. Nothing here imports anything else of Ostinato.
"""
