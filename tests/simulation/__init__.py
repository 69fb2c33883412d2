"""A seeded simulation: the real store, rules and engine; time, chance and misfortune are the test's.

    world.py        one seed: a clock, processes, and all that can go wrong between them
    operators.py    people, who make jobs and ask things of them
    misfortune.py   a database that fails at the worst moments
    chance.py       the dice, and random jobs
    ledger.py       what was promised to whom
    guarantees.py   what must be true of the rows afterwards, whatever happened
    due_times.py    the same for G4: recomputing the due times leaves nothing over

A seed that fails prints what happened in it and how to repeat it.
"""
