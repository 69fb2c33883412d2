"""Why did it run, run late, or not run? Told from what the database remembers, as data and as sentences.

Whoever asks gathers the `Evidence` around one occurrence; `explain` decides what it means. Where two things could have
kept a run from starting, the one that somebody can do something about is told: a paused queue before a missing worker,
a missing worker before a busy one. That all workers were busy is what remains when nothing else was in the way.
"""

from ostinato.core.why.attempts import obstacle
from ostinato.core.why.explain import BY_HAND, explain
from ostinato.core.why.values import Because, Cause, Evidence, Presence, Verdict, Why

__all__ = ["BY_HAND", "Because", "Cause", "Evidence", "Presence", "Verdict", "Why", "explain", "obstacle"]
