"""What people write becomes a source, and what is wrong is refused with the name of its field."""

from datetime import timedelta

import pytest

from ostinato.core.addresses import PUBLIC_ONLY
from ostinato.core.errors import Invalid
from ostinato.core.policy import FirstRun, WhenExhausted
from ostinato.core.schedule import Cron, Every, Manual
from ostinato.features.sources.rules import definition_of, read_source, source_of
from ostinato.features.sources.rules.definition import PagingKind
from ostinato.features.sources.rules.tables import ColumnType, MappedColumn
from tests.sources import DEFINITION, a_source

HOUR = timedelta(hours=1)


def without(name):
    return {key: value for key, value in DEFINITION.items() if key != name}


def test_a_definition_has_the_defaults_of_the_seed():
    source = read_source(DEFINITION)
    assert source.schedule == Every(24 * HOUR)
    assert (source.execution.timeout, source.execution.max_retries) == (timedelta(seconds=300), 5)
    assert source.execution.reset_period == timedelta(days=1)
    assert source.limits.pages == 1000
    assert source.limits.bytes == 50_000_000
    assert source.limits.records == 1_000_000
    assert source.active
    assert source.paging.kind is PagingKind.NONE
    assert source.response.fields[2].column == MappedColumn("amount", ColumnType.NUMBER)


@pytest.mark.parametrize(
    ("written", "schedule"),
    [
        ("daily", Every(24 * HOUR)),
        ("hourly", Every(HOUR)),
        ("interval:30m", Every(HOUR / 2)),
        ("interval: 6h", Every(6 * HOUR)),
        ("0 9 * * mon-fri", Cron("0 9 * * mon-fri", "Europe/Berlin")),
        ("@daily", Cron("@daily", "Europe/Berlin")),
        ("every 2h", Every(2 * HOUR)),
        ({"cron": "0 9 * * *"}, Cron("0 9 * * *", "Europe/Berlin")),
        ({"every": "30m"}, Every(HOUR / 2)),
        ("manual", Manual()),
    ],
)
def test_schedules_are_the_seeds_words_or_ours(written, schedule):
    assert read_source(a_source(schedule=written), "Europe/Berlin").schedule == schedule


def test_both_spellings_of_pagination_mean_the_same():
    by_type = {
        "type": "page",
        "pageParam": "p",
        "limitParam": "size",
        "limit": 50,
        "hasMorePath": "meta.more",
    }
    at_top = {"pageParam": "p", "limitParam": "size", "limit": 50, "hasMorePath": "meta.more"}
    assert read_source(a_source(pagination=by_type)) == read_source(a_source(offsetPagination=at_top))
    cursor = {"cursorParam": "after", "nextCursorPath": "next"}
    assert read_source(a_source(pagination={"type": "cursor", **cursor})) == read_source(
        a_source(cursorPagination=cursor)
    )


def test_the_job_of_a_source_has_its_policies_and_gives_the_source_back():
    written = a_source(
        execution={"timeout": 20, "maxRetries": 2, "retryResetPeriod": "6h"},
        queue="slow",
        auth={"type": "bearer", "token": "env:SECRET_API_TOKEN"},
    )
    source = read_source(written)
    job = definition_of(source, "shop")
    assert (job.task, job.key, job.name, job.app, job.queue) == (
        "fetch",
        "source:us_gdp",
        "us_gdp",
        "shop",
        "slow",
    )
    policies = job.policies
    assert policies.timeout == timedelta(seconds=20)
    assert (policies.max_retries, policies.retry_reset_period) == (2, 6 * HOUR)
    assert (policies.when_exhausted, policies.first_run) == (WhenExhausted.WAIT_RESET, FirstRun.NOW)
    assert source_of(job) == source


def test_the_job_of_a_source_that_is_not_active_has_no_schedule():
    assert definition_of(read_source(a_source(status="inactive"))).schedule == Manual()


def response(**changes):
    return {**DEFINITION["response"], **changes}


@pytest.mark.parametrize(
    ("written", "named"),
    [
        (without("name"), "name is missing"),
        (a_source(name="a/b"), "name must be letters"),
        (a_source(name=True), "name must be text, not True"),
        (a_source(name=1.5), "name must be text, not 1.5"),
        (a_source(timezone="Mars/Base"), "schedule: There is no time zone 'Mars/Base'"),
        (a_source(limits={"maxBytes": 1.5}), "limits.maxBytes must be a size"),
        (without("url"), "url is missing"),
        (a_source(url="ftp://example.org/x"), "url must be an http or https URL"),
        (a_source(url="file:///etc/passwd"), "url must be an http or https URL"),
        (a_source(url="https://me:secret@example.org/"), "url must not hold a name or a password"),
        (without("table"), "table is missing"),
        (a_source(table="ostinato_jobs"), "table must not begin with ostinato"),
        (a_source(table="OSTINATO_x"), "table must not begin with ostinato"),
        (a_source(table="ostinato.jobs"), "table must not begin with ostinato"),
        (a_source(table="Jobs"), "table must not be one of"),
        (a_source(table="public.retries"), "table must not be one of"),
        (a_source(table='gdp"; DROP TABLE x'), "table must be a name"),
        (a_source(table="sqlite_schema"), "table must not begin with"),
        (without("response"), "response is missing"),
        (a_source(response={}), "response.fields is missing"),
        (a_source(response=response(fields=[{"target": "x"}])), "response.fields[0].source is missing"),
        (
            a_source(response=response(fields=[{"source": "x", "type": "money"}])),
            "response.fields[0].type must be",
        ),
        (
            a_source(response=response(fields=[{"source": "x", "target": "a b"}])),
            "response.fields[0].target must be",
        ),
        (
            a_source(response=response(fields=[{"source": "x", "target": "source_name"}])),
            "response.fields[0].target must not be 'source_name'",
        ),
        (
            a_source(response=response(fields=[{"source": "a[?", "target": "a"}])),
            "response.fields[0].source is no",
        ),
        (a_source(response=response(unique=["nobody"])), "response.unique: 'nobody' is not a target column"),
        (a_source(response=response(dataPth="x")), "response.dataPth is not known; did you mean dataPath?"),
        (a_source(shedule="daily"), "shedule is not known; did you mean schedule?"),
        (a_source(schedule="fortnightly"), "schedule: "),
        (a_source(schedule="interval:"), "schedule: "),
        (a_source(execution={"timeout": "soon"}), "execution.timeout: "),
        (a_source(execution={"timeout": 0}), "execution.timeout must be longer than 0 s"),
        (a_source(execution={"maxRetries": -1}), "execution.maxRetries must be a whole number"),
        (a_source(execution={"retries": 1}), "execution.retries is not known; did you mean maxRetries?"),
        (a_source(params=[{"value": "x"}]), "params[0].name is missing"),
        (a_source(params={"a": 1}), "params must be a list"),
        (
            a_source(headers={"Authorization": "Bearer abc"}),
            "headers.Authorization would be stored and shown",
        ),
        (a_source(headers={"Host": "x"}), "headers.Host is set by Ostinato"),
        (a_source(headers={"X-Y": "a\r\nb: c"}), "headers.X-Y must be printable"),
        (a_source(auth={"type": "bearer", "token": "abc"}), "auth.token must say where the secret is"),
        (a_source(auth={"type": "magic"}), "auth.type must be one of"),
        (a_source(pagination={"type": "pages"}), "pagination.type must be one of"),
        (a_source(pagination={"type": "cursor"}), "pagination.cursorParam is missing"),
        (a_source(pagination={"type": "offset"}), "pagination.limit is missing"),
        (a_source(pagination={"type": "next_url"}), "pagination.nextUrlPath is missing"),
        (
            a_source(offsetPagination={}, cursorPagination={}),
            "cursorPagination: a source has one pagination, and offsetPagination is given already",
        ),
        (a_source(incremental={"param": "since", "from": "day"}), "incremental.from must be max(column)"),
        (
            a_source(incremental={"param": "since", "from": "max(nobody)"}),
            "incremental.from must be max(column)",
        ),
        (a_source(incremental={"param": "s", "from": "max(series)", "overlap": "1d"}), "incremental.overlap"),
        (a_source(limits={"maxBytes": "much"}), "limits.maxBytes must be a size"),
        (a_source(limits={"maxRejected": 2}), "limits.maxRejected must be a share"),
        (a_source(database="postgresql://u:secret@h/db"), "database must not hold a password"),
        (a_source(database="mysql://h/db"), "database must be a URL"),
        (
            a_source(database="env:OSTINATO_DATABASE_URL"),
            "database must not name one of Ostinato's own settings",
        ),
        (["a"], "A source must be an object"),
    ],
)
def test_what_is_wrong_is_refused_by_name(written, named):
    with pytest.raises(Invalid) as error:
        read_source(written)
    assert named in str(error.value)
    assert "secret" not in str(error.value).replace("the secret is", "").replace("/run/secrets/", "")


@pytest.mark.parametrize(
    ("written", "says"),
    [
        (without("url") | {"ulr": "http://a.org"}, "ulr is not known; did you mean url? url is missing."),
        (without("response") | {"respons": {}}, "respons is not known; did you mean response?"),
        (a_source(response={"field": []}), "response.field is not known; did you mean fields?"),
        (
            a_source(response=response(fields=[{"sorce": "x"}])),
            "response.fields[0].sorce is not known; did you mean s",
        ),
        (a_source(params=[{"nme": "x"}]), "params[0].nme is not known; did you mean name?"),
        (
            a_source(auth={"typ": "bearer", "token": "env:SECRET_T"}),
            "auth.typ is not known; did you mean type?",
        ),
        (
            a_source(auth={"type": "bearer", "tokn": "env:SECRET_T"}),
            "auth.tokn is not known for bearer; did you mean token?",
        ),
        (a_source(pagination={"typ": "page"}), "pagination.typ is not known; did you mean type?"),
        (a_source(pagination={"limit": 5}), "pagination.type is missing: it is one of none, page, "),
        (
            a_source(pagination={"type": "offset", "limt": 50}),
            "pagination.limt is not known; did you mean limit?",
        ),
        (
            a_source(pagination={"type": "page", "limitParam": "n", "limt": 50}),
            "pagination.limt is not known; did you mean limit? pagination.limit is missing: it is the value of "
            "pagination.limitParam.",
        ),
        (
            a_source(pagination={"type": "cursor", "cursorParam": "c", "nextCursor": "next"}),
            "pagination.nextCursor is not known; did you mean nextCursorPath?",
        ),
        (
            a_source(cursorPagination={"cursorParm": "c", "nextCursorPath": "next"}),
            "cursorPagination.cursorParm is not known; did you mean cursorParam?",
        ),
        (
            a_source(pagination={"type": "next_url", "nextUrl": "n"}),
            "pagination.nextUrl is not known; did you mean",
        ),
        (
            a_source(incremental={"parm": "s", "from": "max(day)"}),
            "incremental.parm is not known; did you mean param?",
        ),
        (
            a_source(incremental={"param": "s", "form": "max(day)"}),
            "incremental.form is not known; did you mean from?",
        ),
        (a_source(limits={"maxPage": 5}), "limits.maxPage is not known; did you mean maxPages?"),
        (a_source(execution={"timout": 5}), "execution.timout is not known; did you mean timeout?"),
    ],
)
def test_a_slip_of_the_pen_is_named_and_not_only_what_is_missing_for_it(written, says):
    with pytest.raises(Invalid) as error:
        read_source(written)
    assert str(error.value).startswith(says)


def test_private_addresses_are_refused_where_they_are_not_allowed():
    with pytest.raises(Invalid, match="url must not lead into a private network"):
        read_source(a_source(url="http://127.0.0.1:8000/x"), egress=PUBLIC_ONLY)


def test_sizes_and_shares_are_read_as_they_are_written():
    limits = read_source(a_source(limits={"maxBytes": "2 MiB", "maxRejected": "5%", "maxPages": 3})).limits
    assert (limits.bytes, limits.rejected, limits.pages) == (2 * 1024 * 1024, 0.05, 3)
