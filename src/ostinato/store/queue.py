"""The run queue: what is due is fired into it, workers claim from it, and what they did is settled out of it."""

from ostinato.store.claiming import Claiming
from ostinato.store.firing import Firing
from ostinato.store.limiting import Limiting
from ostinato.store.run_after import Following
from ostinato.store.settling import Settling


class Queue(Firing, Following, Limiting, Claiming, Settling):
    """The table of what is now, and the five things that happen to it."""
