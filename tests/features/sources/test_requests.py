"""Requests with bodies, values in their places, and what becomes of answers."""

import json
from urllib.parse import parse_qs

import pytest

from ostinato.core.errors import Invalid
from ostinato.features.sources.rules import read_source
from tests.features.sources.test_fetch import app, numbers, run_once  # noqa: F401  a fixture
from tests.played_api import PlayedApi, a_record, a_source_of
from tests.sources import a_source

QUERY = "query ($after: String) { things(after: $after) { id } }"


@pytest.fixture
def api():
    with PlayedApi() as api:
        yield api


def by_cursor_in_body(handler):
    first = int(json.loads(handler.body)["filter"].get("after") or 0)
    more = first + 10
    handler.answer({"items": handler.api.slice(first, 10), "next": more if more < handler.api.records else None})


def graph(handler):
    after = json.loads(handler.body)["variables"].get("after")
    items = handler.api.slice(int(after or 0), 10)
    ends = {"end": str(int(after or 0) + 10), "more": len(items) == 10}
    handler.answer({"data": {"things": items, "page": ends}})


def by_form(handler):
    page = int(parse_qs(handler.body.decode())["page"][0])
    handler.answer(handler.api.slice((page - 1) * 10, 10))


def by_headers(handler):
    first = int(handler.headers.get("X-From", 0))
    more = {"X-Next": str(first + 10)} if first + 10 < handler.api.records else {}
    handler.answer(handler.api.slice(first, 10), **more)


def by_last_record(handler):
    after = int(handler.query.get("after", -1))
    handler.answer(handler.api.slice(after + 1, 10))


PAGED = {
    "json": (by_cursor_in_body, "items", {
        "body": {"json": {"filter": {"status": "open"}, "size": 10}},
        "pagination": {"type": "cursor", "cursorParam": "body:filter.after", "nextCursorPath": "next"},
    }),
    "graphql": (graph, "data.things", {
        "graphql": {"query": QUERY, "variables": {"first": 10}},
        "pagination": {"type": "cursor", "cursorParam": "body:variables.after", "nextCursorPath": "data.page.end",
                       "hasMorePath": "data.page.more"},
    }),
    "form": (by_form, ".", {
        "body": {"form": {"status": "open"}},
        "pagination": {"type": "page", "pageParam": "body:page", "limitParam": "body:limit", "limit": 10},
    }),
    "headers": (by_headers, ".", {
        "pagination": {"type": "cursor", "cursorParam": "header:X-From", "nextCursorPath": "header:X-Next"},
    }),
    "last": (by_last_record, ".", {
        "pagination": {"type": "cursor", "cursorParam": "after", "nextCursorPath": "last:id"},
    }),
}  # fmt: skip


@pytest.mark.parametrize("way", PAGED)
def test_every_page_arrives_wherever_its_values_stand(app, api, way):  # noqa: F811
    api.bodies["/things"], data, more = PAGED[way]
    ended = run_once(app, a_source_of(api.url("/things"), path=data, **more))
    assert ended.outcome == "completed", ended.error
    assert numbers(app) == list(range(25))


def test_a_body_is_sent_as_it_is_written(app, api):  # noqa: F811
    api.bodies["/things"] = [a_record(1)]
    for number, (body, sent, kind) in enumerate(
        [
            ({"json": {"a": [1, "é"]}}, '{"a":[1,"é"]}', "application/json"),
            ({"form": {"a": "1 2"}}, "a=1+2", "application/x-www-form-urlencoded"),
            ({"text": "all"}, "all", "text/plain; charset=utf-8"),
        ]
    ):
        run_once(app, a_source_of(api.url("/things"), name=f"things{number}", body=body))
        assert (api.sent[-1].decode(), api.headers[-1]["content-type"]) == (sent, kind)
    run_once(app, a_source_of(api.url("/things"), name="bare", method="POST"))
    assert api.sent[-1] == b""


def test_the_errors_of_graphql_fail_the_run_though_the_status_is_200(app, api):  # noqa: F811
    api.bodies["/things"] = lambda handler: handler.answer({"errors": [{"message": "no such field"}], "data": None})
    ended = run_once(app, a_source_of(api.url("/things"), path="data.things", graphql={"query": QUERY}))
    assert (ended.outcome, ended.error_kind) == ("failed", "PermanentFailure")
    assert "no such field" in ended.error


@pytest.mark.parametrize(
    ("status", "body", "actions", "outcome", "said"),
    [
        (404, {"error": "none"}, [{"status": 404, "action": "ignore"}], None, ""),
        (204, b"", [], None, ""),
        (403, {"error": "rate limit"}, [{"status": [403, 420], "contains": "rate", "action": "retry"}],
         "TransientFailure", "rate limit"),
        (403, {"error": "closed"}, [{"status": 403, "contains": "rate", "action": "ignore"}], "PermanentFailure",
         "closed"),
        (403, {}, [{"status": 403, "action": "retry", "after": "10m"}], "AskedToWait", "403"),
        (200, {"error": "closed"}, [{"where": "error=='closed'", "action": "fail", "say": "The shop is closed."}],
         "PermanentFailure", "Page 1: The shop is closed."),
        (200, {"error": "empty"}, [{"contains": "empty", "action": "ignore"}], None, ""),
        (500, {}, [{"status": 500, "action": "fail", "say": "It never works."}, {"status": 500, "action": "ignore"}],
         "PermanentFailure", "It never works."),
    ],
)  # fmt: skip
def test_the_first_action_that_fits_decides(app, api, status, body, actions, outcome, said):  # noqa: F811
    api.bodies["/things"] = lambda handler: handler.answer(body, status)
    ended = run_once(app, a_source_of(api.url("/things"), path="items", responseActions=actions))
    assert (ended.error_kind or None) == outcome, ended.error
    if outcome is None:
        assert (ended.outcome, ended.items_crawled) == ("completed", 0)
    else:
        assert said in ended.error


def test_an_ignored_answer_ends_the_pages_and_keeps_those_before_it(app, api):  # noqa: F811
    def until_two(handler):
        page = int(handler.query["page"])
        handler.answer(*(({"error": "gone"}, 404) if page > 2 else (handler.api.slice((page - 1) * 10, 10), 200)))

    api.bodies["/things"], api.records = until_two, 100
    actions = [{"status": 404, "action": "ignore"}]
    paging = {"type": "page", "stopAfter": "empty_page"}
    ended = run_once(app, a_source_of(api.url("/things"), pagination=paging, responseActions=actions))
    assert (ended.outcome, numbers(app)) == ("completed", list(range(20)))


@pytest.mark.parametrize(
    ("pagination", "pages"),
    [
        ({"type": "offset", "limit": 10, "stopAfter": "empty_page"}, 4),
        ({"type": "offset", "limit": 10, "stopAfter": "short_page"}, 3),
        ({"type": "offset", "limit": 10, "stopWhen": "[0].id==`10`"}, 2),
    ],
)
def test_words_about_the_last_page(app, api, pagination, pages):  # noqa: F811
    ended = run_once(app, a_source_of(api.url("/offset"), pagination=pagination))
    assert (ended.outcome, ended.result["pages"]) == ("completed", pages), ended.error


def test_the_next_url_may_lie_on_a_host_that_is_named(app, api):  # noqa: F811
    api.bodies["/first"] = lambda handler: handler.answer(
        {"items": [a_record(1)], "next": api.url("/second").replace("127.0.0.1", "localhost")}
    )
    api.bodies["/second"] = {"items": [a_record(2)]}
    paging = {"type": "next_url", "nextUrlPath": "next"}
    refused = run_once(app, a_source_of(api.url("/first"), path="items", pagination=paging))
    assert "Name it in pagination.hosts" in refused.error
    named = a_source_of(api.url("/first"), name="b", path="items", pagination=paging | {"hosts": ["localhost"]})
    assert run_once(app, named).outcome == "completed"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"method": "GET", "body": {"text": "x"}}, "method: GET has no body"),
        ({"body": {"json": 1, "text": "x"}}, "body must have one of json, form, text"),
        ({"body": {"text": "x"}, "graphql": {"query": "{a}"}}, "body and graphql both say"),
        ({"body": {"form": [1]}}, "body.form must be an object"),
        ({"graphql": {"query": "{a}", "variables": [1]}}, "graphql.variables must be an object"),
        ({"responseActions": [{"action": "ignore"}]}, r"responseActions\[0\].status is missing"),
        ({"responseActions": [{"status": 99, "action": "ignore"}]}, "must be a status such as 404"),
        ({"responseActions": [{"status": 404}]}, r"responseActions\[0\].action is missing"),
        ({"responseActions": [{"status": 404, "action": "fail", "after": "1m"}]}, "goes with action: retry"),
        ({"pagination": {"type": "page", "pageParam": "body:page"}}, "'body:page' needs a body"),
        ({"pagination": {"type": "page", "stopAfter": "short_page"}}, "pagination.limit is missing"),
        ({"pagination": {"type": "cursor", "cursorParam": "c", "nextCursorPath": "last:a..b"}}, "an empty part"),
        ({"write": "replace", "responseActions": [{"status": 500, "action": "ignore"}]}, "only 404 and 410"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_with_the_name_of_the_field(changes, said):
    with pytest.raises(Invalid, match=said):
        read_source(a_source(**changes))


def test_a_status_may_be_written_as_json_writes_numbers():
    action = {"status": [404.0, 410], "action": "ignore"}
    assert [each.statuses for each in read_source(a_source(responseActions=[action])).actions] == [{404, 410}]
