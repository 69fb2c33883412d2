"""The reader of the words about requests: method, body, GraphQL, actions for answers, and pages."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from ostinato.core.auth import check_header_name
from ostinato.core.errors import Invalid
from ostinato.core.payload import as_whole
from ostinato.features.sources.rules.definition import Paging, PagingKind, StopAfter
from ostinato.features.sources.rules.paths import check_path
from ostinato.features.sources.rules.requests import (
    HEADER,
    LAST,
    ActionKind,
    BodyKind,
    Method,
    ResponseAction,
    SourceBody,
)
from ostinato.features.sources.rules.words import ObjectReader, text_of

GONE: Final = frozenset({404, 410})
MOST_ACTIONS: Final = 20
ZERO: Final = timedelta(0)


def read_request(words: ObjectReader) -> tuple[Method, SourceBody | None]:
    """Read the method and the body of the requests."""
    body = _graphql(words.inner("graphql")) if words.has("graphql") else _body(words)
    if words.has("graphql") and words.has("body"):
        raise Invalid("body and graphql both say what is sent: leave one out.")
    method = Method(words.choice("method", list(Method), Method.GET if body is None else Method.POST))
    if body is not None and method is Method.GET:
        raise Invalid("method: GET has no body; write POST, or leave it out.")
    return method, body


def _body(words: ObjectReader) -> SourceBody | None:
    if not words.has("body"):
        return None
    inner = words.inner("body")
    given = [kind for kind in BodyKind if inner.has(kind)]
    if len(given) != 1:
        raise Invalid(f"body must have one of {', '.join(BodyKind)}.")
    kind = given[0]
    value: Any = inner.any(kind)
    if kind is BodyKind.TEXT:
        value = text_of(value, inner.path(kind))
    if kind is BodyKind.FORM:
        if not isinstance(value, Mapping):
            raise Invalid(f"{inner.path(kind)} must be an object of texts.")
        value = {str(name): text_of(each, f"{inner.path(kind)}.{name}") for name, each in value.items()}
    inner.no_more()
    return SourceBody(kind, value)


def _graphql(words: ObjectReader) -> SourceBody:
    query, variables = words.needed_text("query"), words.any("variables") or {}
    if not isinstance(variables, Mapping):
        raise Invalid(f"{words.path('variables')} must be an object.")
    words.no_more()
    return SourceBody(BodyKind.JSON, {"query": query, "variables": dict(variables)})


def read_actions(words: ObjectReader) -> tuple[ResponseAction, ...]:
    """Read `responseActions`: the first that fits an answer decides."""
    return tuple(_action(ObjectReader(each, where)) for where, each in words.items("responseActions", MOST_ACTIONS))


def _action(words: ObjectReader) -> ResponseAction:
    words.needed("action")
    kind = ActionKind(words.choice("action", list(ActionKind), ""))
    where = words.text("where", longest=500)
    after = words.span("after", ZERO) or None
    found = ResponseAction(
        kind,
        frozenset(_statuses(words)),
        words.text("contains", longest=500),
        check_path(where, words.path("where")) if where else "",
        after,
        words.text("say", longest=500),
    )
    if not found.statuses and not found.looks:
        raise Invalid(f"{words.path('status')} is missing: an action is for a status, or for answers with a text.")
    if after is not None and kind is not ActionKind.RETRY:
        raise Invalid(f"{words.path('after')} goes with action: retry.")
    words.no_more()
    return found


def _statuses(words: ObjectReader) -> list[int]:
    written, found = words.any("status"), list[int]()
    for each in written if isinstance(written, list | tuple) else [] if written is None else [written]:
        status = as_whole(each)  # JSON may write 404 as 404.0
        if type(status) is not int or not 100 <= status <= 599:
            raise Invalid(f"{words.path('status')} must be a status such as 404, or a list of them.")
        found.append(status)
    return found


# -- pages


def read_paging(words: ObjectReader) -> Paging:
    given = [name for name in ("pagination", "offsetPagination", "cursorPagination") if words.has(name)]
    if len(given) > 1:
        raise Invalid(f"{given[1]}: a source has one pagination, and {given[0]} is given already.")
    if not given:
        return Paging()
    inner = words.inner(given[0])
    kinds = {"offsetPagination": PagingKind.PAGE, "cursorPagination": PagingKind.CURSOR}
    if given[0] not in kinds and inner.says_something and not inner.has("type"):
        raise inner.missing("type", f"it is one of {', '.join(PagingKind)}")
    kind = kinds.get(given[0]) or PagingKind(inner.choice("type", list(PagingKind), PagingKind.NONE))
    paging = _paging_of(kind, inner)
    if kind is not PagingKind.NONE:
        paging = _with_end(paging, inner)
    inner.no_more()
    return paging


def _with_end(paging: Paging, words: ObjectReader) -> Paging:
    """Read the words about the last page, which all paginations have."""
    more, stop = words.text("hasMorePath", longest=500), words.text("stopWhen", longest=500)
    for path, name in ((more, "hasMorePath"), (stop, "stopWhen")):
        if path:
            check_path(path, words.path(name))
    after = words.choice("stopAfter", list(StopAfter), "")
    if after == StopAfter.SHORT_PAGE and paging.limit is None:
        raise words.missing("limit", "a page with fewer records is short")
    hosts = tuple(text_of(each, where, 300).lower() for where, each in words.items("hosts", 20))
    return replace(
        paging, has_more_path=more, stop_when=stop, stop_after=StopAfter(after) if after else None, hosts=hosts
    )


def _paging_of(kind: PagingKind, words: ObjectReader) -> Paging:
    match kind:
        case PagingKind.PAGE:
            start = words.whole("start", 1, 0, 1_000_000)
            return _counted(kind, words.text("pageParam") or "page", start, words)
        case PagingKind.OFFSET:
            paging = _counted(kind, words.text("offsetParam") or words.text("pageParam") or "offset", 0, words)
            if paging.limit is None:
                raise words.missing("limit", "the offset grows by this number of records")
            return paging
        case PagingKind.CURSOR:
            param, path = words.needed_text("cursorParam", 200), words.needed_text("nextCursorPath", 500)
            limit_param, limit = _limit(words)
            _check_origin(path, words.path("nextCursorPath"))
            return Paging(kind, param, limit_param, limit, next_path=path)
        case PagingKind.NEXT_URL:
            path = _check_origin(words.needed_text("nextUrlPath", 500), words.path("nextUrlPath"))
            limit_param, limit = _limit(words)
            return Paging(kind, "", limit_param, limit, next_path=path)
        case PagingKind.LINK_HEADER:
            limit_param, limit = _limit(words)
            return Paging(kind, "", limit_param, limit)
        case _:
            return Paging()


def _check_origin(path: str, what: str) -> str:
    """Check where a value comes from: a path, a header, or a path into the last record."""
    if path.startswith(HEADER):
        check_header_name(path.removeprefix(HEADER), what)
        return path
    check_path(path.removeprefix(LAST), what)
    return path


def _counted(kind: PagingKind, param: str, start: int, words: ObjectReader) -> Paging:
    limit_param, limit = _limit(words)
    return Paging(kind, param, limit_param, limit, start)


def _limit(words: ObjectReader) -> tuple[str, int | None]:
    param, limit = words.text("limitParam", longest=200), words.whole("limit", 0, 1, 10_000_000)
    if param and not limit:
        raise words.missing("limit", f"it is the value of {words.path('limitParam')}")
    return (param or "limit", limit) if limit else ("", None)
