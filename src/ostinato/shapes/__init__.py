"""The outside JSON shapes, in and out, one file per vocabulary.

What people and programs send is checked and turned into the values of `core` here, and what the front desk answers
is written out. The room holds no rule of the scheduler and asks no store; of `store` it knows the shapes of rows. It
is the only place that knows the words of the seeds; inside there are only ours.

The seeds are the schedulers that Ostinato grew from, and whose clients it serves: 000 and 002 Hermes, which fetches
APIs; 001 Pipelit, which runs workflows over RQ; 003 the interval scheduler of a crawler; 004 CHRONOS.
"""
