"""The outside JSON shapes, in and out, one file per vocabulary.

What people and programs send is checked and turned into the values of `core` here, and what the front desk answers
is written out. The room holds no rule of the scheduler and reaches no store. It is the only place that knows the
words of the seeds; inside there are only ours.
"""
