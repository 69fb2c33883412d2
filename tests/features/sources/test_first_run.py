"""The first run of a source whose rows may be older than the source."""

from datetime import UTC, datetime, timedelta

import pytest

from ostinato.core.builtin import Permits
from ostinato.core.errors import Invalid
from ostinato.features.sources.declared import declared_sources
from ostinato.features.sources.rules import read_source
from ostinato.features.sources.rules.definition import FirstFetch
from ostinato.features.sources.rules.jobs import grid_of
from ostinato.features.sources.service import SourceContext, SourceService
from tests.sources import a_source

HERE = SourceContext(permits=Permits())
HOUR = timedelta(hours=1)


@pytest.fixture
def sources(new_app):
    app = new_app()
    database = app.parts.store.database
    with database.write() as tx:
        tx.run(database.dialect.statement("DROP TABLE IF EXISTS gdp"))
    return app.scheduler.part(SourceService), app


def with_rows(app, *ages):
    database = app.parts.store.database
    kind = "timestamptz" if "postgres" in database.dialect.kind else "text"
    with database.write() as tx:
        columns = f"source_name text, created_at {kind}, day date, series text, amount double precision"
        tx.run(database.dialect.statement(f"CREATE TABLE gdp ({columns})"))
        for age in ages:
            at = (app.now() - age).isoformat()
            tx.run(database.dialect.statement(f"INSERT INTO gdp (source_name, created_at) VALUES ('us_gdp', '{at}')"))
        other = "INSERT INTO gdp (source_name, created_at) VALUES ('other', '2099-01-01T00:00:00+00:00')"
        tx.run(database.dialect.statement(other))


def first_of(view, app):
    """Hours until the first run; 0 if it is there already."""
    return 0 if view.job.lives else round((view.job.next_run_at - app.now()) / HOUR, 1)


@pytest.mark.parametrize(
    ("ages", "hours"), [((), 0), ((30 * HOUR,), 0), ((5 * HOUR, 50 * HOUR), 19), ((HOUR / 2,), 23.5)]
)
def test_it_is_due_when_the_schedule_is_after_the_newest_row(sources, ages, hours):
    service, app = sources
    with_rows(app, *ages)
    (planned,) = service.plan([a_source(firstRun="from_rows")], HERE)
    view = service.create(a_source(first_run="from_rows"), HERE)
    assert first_of(view, app) == hours
    assert round((planned.next_run_at - app.now()) / HOUR, 1) == hours


def test_without_a_table_it_runs_at_once_and_next_waits(sources):
    service, app = sources
    assert first_of(service.create(a_source(firstRun="from_rows"), HERE), app) == 0
    assert first_of(service.create(a_source(name="later", firstRun="next"), HERE), app) == 24
    assert first_of(service.create(a_source(name="usual"), HERE), app) == 0


def test_apply_says_it_for_many_and_a_definition_of_its_own_word_wins(sources):
    service, app = sources
    with_rows(app, 5 * HOUR)
    wanted = [a_source(), a_source(name="mine", firstRun="now")]
    service.apply(wanted, HERE, first_run=FirstFetch.FROM_ROWS)
    assert [first_of(service.get(name), app) for name in ("us_gdp", "mine")] == [19, 0]
    assert {each.change for each in service.apply(wanted, HERE, first_run=FirstFetch.FROM_ROWS)} == {"unchanged"}


def test_a_cron_schedule_keeps_its_times():
    now = datetime(2026, 11, 19, 12, tzinfo=UTC)
    source = read_source(a_source(schedule="0 9 * * *"))
    assert grid_of(source, now - 2 * HOUR, now) == now - 2 * HOUR, "due tomorrow at 9"
    assert grid_of(source, now - 4 * HOUR, now) is None, "9:00 has passed since"


def test_a_declared_source_cannot_go_by_its_rows(sources):
    _, app = sources
    with pytest.raises(Invalid, match="firstRun: next, or create the source with"):
        declared_sources(a_source(firstRun="from_rows"), app.settings, "shop")
    with pytest.raises(Invalid, match="mean the same"):
        read_source(a_source(firstRun="now", first_run="now"))
