"""A seeded simulation: the real store, rules and engine; time, chance and misfortune are the test's.

    world.py        one seed: processes, operators, faults, and what each of them saw
    misfortune.py   a database that fails at the worst moments
    guarantees.py   what must be true of the rows afterwards, whatever happened

A seed that fails prints what happened in it and how to repeat it.
"""
