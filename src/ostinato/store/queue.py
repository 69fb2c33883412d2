"""The run queue: what is due is fired into it, workers claim from it, and what they did is settled out of it."""

from ostinato.store.claiming import Claim, Claiming
from ostinato.store.firing import FIRST_ID, Firing
from ostinato.store.settling import Mark, Settled, Settling

__all__ = ["FIRST_ID", "Claim", "Mark", "Queue", "Settled"]


class Queue(Firing, Claiming, Settling):
    """The table of what is now, and the three things that happen to it."""
