"""The run queue: what is due is fired into it, workers claim from it, and what they did is settled out of it."""

from ostinato.store.claiming import Claim, Claiming
from ostinato.store.firing import FIRST_ID, Firing
from ostinato.store.following import Following
from ostinato.store.limiting import Gate, Limiting
from ostinato.store.settling import Mark, Settled, Settling

__all__ = ["FIRST_ID", "Claim", "Gate", "Mark", "Queue", "Settled"]


class Queue(Firing, Following, Limiting, Claiming, Settling):
    """The table of what is now, and the five things that happen to it."""
