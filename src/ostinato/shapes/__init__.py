"""JSON shapes of requests and answers, one file per vocabulary.

Shapes check requests and turn them into values of `core`, and turn the results of the service into answers. They hold
no rules of the scheduler and read no database; from `store` they import only the types of rows. Only this package
knows the field names of the seeds; all other code uses Ostinato's own names.

The seeds are earlier schedulers whose clients Ostinato serves: 000 and 002 are Hermes, which fetches APIs; 001 is
Pipelit, which runs workflows over RQ; 003 is the interval scheduler of a crawler; 004 is CHRONOS.
"""
