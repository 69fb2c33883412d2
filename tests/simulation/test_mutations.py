"""The simulation sees what it is there to see: with one guarantee taken away, some seed of CI fails.

And with the fast path changed, a seed and its twin differ.
"""

from dataclasses import replace
from datetime import timedelta

import pytest

from ostinato.core.lifecycle.draft import Draft
from ostinato.engine import sweeper
from ostinato.store import firing, locking, rows, settling
from ostinato.store.claiming import Claiming
from ostinato.store.database import Database
from ostinato.store.settling import Settling
from tests.simulation.test_simulation import CI_SEEDS, different_twins, on_sqlite


def first_seed_that_fails(schema, tmp_path, likely: int) -> list[str]:
    for seed in sorted(range(CI_SEEDS), key=lambda seed: (seed != likely, seed)):
        (folder := tmp_path / str(seed)).mkdir()
        flaws: list[str] = []
        on_sqlite(schema, folder, seed, flaws=flaws)
        if flaws:
            print(f"seed {seed}", *flaws, sep="\n")  # noqa: T201  with -s one sees why
            return flaws
    return []


def without_a_fence(monkeypatch):
    """Whoever comes with a result is believed."""

    def anybody(lives, each):
        return next((live for live in lives.get(each.live.job_id, ()) if live.id == each.live.id), None)

    monkeypatch.setattr(settling, "_still_held", anybody)
    load = Database.load

    def without(database, statements):
        loaded = load(database, statements)
        for name in ("lock_expecting", "jobs_as_expected"):
            if name in database.statements:
                statement = database.statements[name]
                sql = statement.sql.replace("l.fence = u.fence AND l.worker_id = :worker", "true")
                database.statements[name] = replace(statement, sql=sql)
                assert "l.fence = u.fence" not in sql
        return loaded

    monkeypatch.setattr(Database, "load", without)


def settle_in_two_transactions(monkeypatch):
    """First the rows, then the facts: whoever fails between them leaves them apart."""
    whole = Settling._settle

    def apart(self, finished):
        with monkeypatch.context() as half:
            half.setattr(locking, "save", lambda tx, changes, before: locking._save_the_rest(tx, changes))
            settled = whole(self, finished)
        with self._database.write() as tx:
            for change in settling._one_per_job(settled.changes):
                tx.run("update_facts", [rows.changed_facts(change)])
        return settled

    monkeypatch.setattr(Settling, "_settle", apart)


def a_skip_that_is_not_recorded(monkeypatch):
    """A due time that was not run leaves no trace."""
    monkeypatch.setattr(Draft, "skip", lambda self, reason, first, last, count, **_: self.dealt_with(last))


def a_lease_that_nobody_looks_at(monkeypatch):
    """The dead are never found."""
    monkeypatch.setattr(sweeper, "_expired", lambda lease, now: False)


def a_claim_that_looks_at_no_pause(monkeypatch):
    """A queue is served, whatever an operator says."""
    monkeypatch.setattr(Claiming, "_open_queues", lambda self, *_: dict.fromkeys(("default", "bulk")))


# and the seed that failed first when somebody looked: it most likely still does, and is tried before the others
MUTATIONS = {
    without_a_fence: 181,
    settle_in_two_transactions: 21,
    a_skip_that_is_not_recorded: 1,
    a_lease_that_nobody_looks_at: 4,
    a_claim_that_looks_at_no_pause: 28,
}


@pytest.mark.parametrize("mutate", MUTATIONS)
def test_some_seed_fails_with(mutate, monkeypatch, sqlite_schema, tmp_path):
    mutate(monkeypatch)
    assert first_seed_that_fails(sqlite_schema, tmp_path, MUTATIONS[mutate])


def a_firing_at_another_time(monkeypatch):
    """A second later than the rule says; nothing is lost, and no guarantee is broken."""
    plainly = firing.fire_plainly

    def later(job, now, chance):
        change = plainly(job, now, chance)
        if change is None:
            return None
        facts = replace(change.job.facts, next_due_at=change.job.facts.next_due_at + timedelta(seconds=1))
        return replace(change, job=replace(change.job, facts=facts))

    monkeypatch.setattr(firing, "fire_plainly", later)


def a_plain_success_that_is_no_repeat(monkeypatch):
    change_statements(monkeypatch, "count_success", "repeats_done = j.repeats_done + u.repeats", "repeats_done = 0")


def a_fired_run_of_another_priority(monkeypatch):
    change_statements(monkeypatch, "queue_fired", "j.priority", "1 + j.priority % 10")


def change_statements(monkeypatch, name, part, other):
    load = Database.load

    def changed(database, statements):
        loaded = load(database, statements)
        if name in loaded:
            statement = database.statements[name]
            assert part in statement.sql
            database.statements[name] = replace(statement, sql=statement.sql.replace(part, other))
        return loaded

    monkeypatch.setattr(Database, "load", changed)


@pytest.mark.parametrize(
    "mutate", [a_firing_at_another_time, a_plain_success_that_is_no_repeat, a_fired_run_of_another_priority]
)
def test_twins_differ_with(mutate, monkeypatch, sqlite_schema, tmp_path):
    """Unchanged, the twins of all these seeds are equal: see test_simulation.py. Guarantees that break do not count."""
    mutate(monkeypatch)
    assert any(different_twins(sqlite_schema, tmp_path / str(seed), seed, flaws=[]) for seed in range(20))
