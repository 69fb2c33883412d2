"""People: they make jobs and ask things of them, and do not always learn whether it was done."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ostinato.core.errors import Conflict, Invalid, NotFound, StoreError
from ostinato.service import Service
from ostinato.store.store import Store
from tests.simulation.ledger import Known, short, shown

if TYPE_CHECKING:
    from tests.simulation.world import World

INSTANT = timedelta(microseconds=1)
MOST_JOBS = 7
COMMANDS = {
    "pause": 4, "resume": 5, "cancel": 1, "run": 4, "run_with": 1, "retry": 3, "restart": 3, "edit": 5, "delete": 1,
}  # fmt: skip


class Operators:
    """Everybody who has a say."""

    def __init__(self, world: World, store: Store) -> None:
        self._world, self._ledger = world, world.ledger
        self.service = Service(store, world.clock, world.chance, "", lambda: ("work", "rare"))

    def create(self) -> None:
        if len(self._ledger.jobs) >= MOST_JOBS:
            return
        task = self._world.dice.weighted({"work": 8, "rare": 2, "nobody": 1})
        key = self._world.dice.one(None, f"k{len(self._ledger.jobs)}")
        wanted = self._world.dice.definition(self._world.clock.now(), self._world.pace, task, key)
        for _ in range(20 if key else 1):  # with a key it can be repeated safely
            try:
                (job_id,) = self.service.jobs.create([wanted], allow_unknown=True)
            except Invalid:
                return
            except StoreError as error:
                self._world.tell(f"somebody makes a job: {error}")
                continue
            self._ledger.jobs[job_id] = Known(job_id, wanted, [wanted])
            self._world.tell(f"somebody makes job {short(job_id)}: {task} {wanted.schedule} {shown(wanted)}")
            return

    def command(self) -> None:
        known = self._some_job()
        if known is not None:
            name = self._world.dice.weighted(COMMANDS)
            self._ask(f"{name} {short(known.id)}", lambda: self._ask_one(name, known))

    def _ask_one(self, name: str, known: Known) -> None:
        row = self._world.store.jobs.get([known.id]).get(known.id)
        if row is not None and row.job.facts.ended_as is not None:
            known.changed_when_over.add(self._world.clock.now())
        getattr(self, f"_ask_{name}")(known)

    def _some_job(self) -> Known | None:
        jobs = [known for known in self._ledger.jobs.values() if not known.deleted]
        return self._world.dice.one(*jobs) if jobs else None

    def _ask(self, what: str, command: Callable[[], Any]) -> None:
        self._world.clock.advance(INSTANT)  # two events of one instant would have no order
        try:
            command()
            self._world.tell(f"operator: {what}")
        except (Conflict, NotFound, Invalid, StoreError) as error:
            self._world.tell(f"operator: {what}: {type(error).__name__} {error}"[:160])

    def _ask_pause(self, known: Known) -> None:
        self.service.jobs.pause(known.id, by="ops")
        known.stopped, known.run_since = "pause", False

    def _may_have_begun_again(self, known: Known) -> None:
        """A pause ends with the job; whatever the answer will be, what is asked for now may have happened."""
        row = self._world.store.jobs.get([known.id]).get(known.id)
        if known.stopped == "pause" and row is not None and row.job.facts.ended_as is not None:
            known.stopped = None

    def _ask_resume(self, known: Known) -> None:
        if known.stopped == "pause":
            known.stopped = None  # whatever the answer is, it may have happened
        self.service.jobs.resume(known.id, by="ops")

    def _ask_cancel(self, known: Known) -> None:
        self.service.jobs.cancel(known.id, by="ops")
        known.stopped = "cancel"

    def _ask_delete(self, known: Known) -> None:
        known.deleted = True
        self.service.jobs.delete(known.id, by="ops")
        known.stopped = "delete"

    def _ask_run(self, known: Known) -> None:
        known.run_since = True
        self.service.jobs.run(known.id, by="ops")

    def _ask_run_with(self, known: Known) -> None:
        known.run_since = True
        self.service.jobs.run(known.id, {"n": 2}, by="ops")

    def _ask_retry(self, known: Known) -> None:
        self._may_have_begun_again(known)
        self.service.jobs.retry(known.id, by="ops")

    def _ask_restart(self, known: Known) -> None:
        self._may_have_begun_again(known)
        self.service.jobs.restart(known.id, by="ops")

    def _ask_edit(self, known: Known) -> None:
        job = self.service.jobs.get(known.id).job
        wanted = self._world.dice.edited(job.definition, self._world.clock.now(), self._world.pace)
        known.tried.append(wanted)
        self.service.jobs.edit(known.id, lambda _: wanted, by="ops", allow_unknown=True)
        self._world.tell(f"  now {wanted.task} {wanted.schedule} {shown(wanted)}")

    def queue_command(self) -> None:
        queue = self._world.dice.one("default", "bulk")
        match self._world.dice.one("pause", "resume", "resume", "bound", "unbound", "drain"):
            case "pause":
                self._ask(f"pause queue {queue}", lambda: self._pause_queue(queue))
            case "resume":
                self._ledger.paused_queues.discard(queue)
                self._ask(f"resume queue {queue}", lambda: self.service.resume_queue(queue))
            case "bound":
                self._ask(f"bound queue {queue}", lambda: self.service.bound_queue(queue, 1))
            case "drain":
                self._ask("drain a worker", self._drain)
            case "unbound":
                self._ask(f"unbound queue {queue}", lambda: self.service.bound_queue(queue, None))

    def _drain(self) -> None:
        process = self._world.somebody()
        if process is not None and process.id is not None:
            self.service.drain(process.id)

    def _pause_queue(self, queue: str) -> None:
        self.service.pause_queue(queue)
        self._ledger.paused_queues.add(queue)

    def execution_command(self) -> None:
        lives = self._world.store.history.live(50)
        if not lives:
            return
        live = self._world.dice.one(*lives)
        what = self._world.dice.one("cancel", "cancel", "force", "release")
        service = self.service.executions
        self._ask(
            f"{what} execution {short(live.id)} n{live.number}-rc{live.attempt} of {short(live.job_id)}",
            {
                "cancel": lambda: service.cancel(live.id, by="ops"),
                "force": lambda: service.cancel(live.id, by="ops", force=True),
                "release": lambda: service.release(live.id, by="ops"),
            }[what],
        )
