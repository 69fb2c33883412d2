"""The run queue: due jobs are fired into it, workers claim from it, and results settle its executions."""

from ostinato.store.claiming import Claiming
from ostinato.store.firing import Firing
from ostinato.store.limiting import Limiting
from ostinato.store.run_after import Following
from ostinato.store.settling import Settling


class Queue(Firing, Following, Limiting, Claiming, Settling):
    """Table of live executions, and the five duties that change it."""
