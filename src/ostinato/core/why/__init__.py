"""Explanations why an occurrence ran, ran late, or did not run: as data and as sentences.

The caller gathers the `Evidence` about one occurrence from the database; `explain` finds the causes. Where two causes
are possible, the one that a person can change comes first: a paused queue before a missing worker, a missing worker
before a busy one. "All workers were busy" is the answer when no other cause was found.
"""

from ostinato.core.why.explain import BY_HAND, explain, obstacle
from ostinato.core.why.values import Because, Cause, Evidence, Presence, Verdict, Why

__all__ = ["BY_HAND", "Because", "Cause", "Evidence", "Presence", "Verdict", "Why", "explain", "obstacle"]
