"""The engine `rq`: messages to RQ's workers, and the processes of `ostinato worker --engine rq`."""

from collections.abc import Mapping

from ostinato.clock import Clock
from ostinato.config import Settings
from ostinato.features.rq.crew import Crew
from ostinato.features.rq.messages import RqMessages, connect
from ostinato.store.store import Store


def messenger(store: Store, clock: Clock, settings: Settings) -> RqMessages:
    """Return the messages to RQ's workers; from now on, the changes of this process are sent to Redis."""
    messages = RqMessages(store, clock, connect(settings.redis_url.reveal()))
    store.database.on_change = messages.on_change
    return messages


def workers(where: str | None, chosen: Mapping[str, object], settings: Settings) -> Crew:
    """Return processes of RQ workers, one for each concurrent run."""
    return Crew(where, chosen, settings.concurrency, settings.shutdown_grace.total_seconds())
