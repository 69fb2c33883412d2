"""`http`: call a URL, and judge the answer by its status.

Every attempt of an occurrence sends the same Idempotency-Key, so that the other side can tell a repetition from a new
order.
"""

import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from ostinato.core import templating
from ostinato.core.arguments import Flaw, read
from ostinato.core.built_in.http import HttpArgs
from ostinato.core.payload import decode
from ostinato.outgoing import Answer
from ostinato.task import Context, GiveUp, Task

SHOWN: Final = 500  # characters of an answer in an error


class UnexpectedStatus(Exception):
    """The answer has a status that was not expected, and another try may help."""


async def http(ctx: Context, **given: Any) -> dict[str, Any]:
    """Call a URL once."""
    args = read(HttpArgs, given)
    url, headers, body = _request(args, ctx)
    answer = await ctx.outgoing.call(
        args.method,
        url,
        headers=headers,
        body=body,
        seconds=args.timeout.total_seconds(),
        most=max(args.keep, SHOWN),
    )
    ctx.log.info("answered", status=answer.status, bytes=len(answer.body))
    if not _is_one_of(answer.status, args.expect):
        raise _refused(answer, args)
    return {"status": answer.status, **_kept(answer, args.keep)}


def _request(args: HttpArgs, ctx: Context) -> tuple[str, dict[str, str], bytes]:
    names = _names(ctx, args)
    try:
        url = templating.fill_text(args.url, names, lambda value: quote(value, safe=""))
        headers = {
            name: _one_line(templating.fill_text(value, names)) for name, value in args.headers.items()
        }
        body, kind = _body(args, names)
    except Flaw as flaw:
        raise GiveUp(f"A template of the job {flaw.rest}") from None
    usual = {} if kind is None or "content-type" in map(str.lower, headers) else {"content-type": kind}
    return url, usual | headers | _ours(ctx, args), body


def _body(args: HttpArgs, names: Mapping[str, Any]) -> tuple[bytes, str | None]:
    if args.json is not None:
        filled = templating.fill(args.json, names)
        return json.dumps(filled, ensure_ascii=False).encode(), "application/json"
    if args.body is not None:
        return templating.fill_text(args.body, names).encode(), "text/plain; charset=utf-8"
    return b"", None


def _ours(ctx: Context, args: HttpArgs) -> dict[str, str]:
    key = {"idempotency-key": ctx.occurrence_key} if args.idempotency_key else {}
    return key | {
        "x-job-id": str(ctx.job_id),
        "x-execution-key": ctx.execution_key,
        "x-attempt": str(ctx.attempt),
    }


def _names(ctx: Context, args: HttpArgs) -> dict[str, Any]:
    """What templates may say: names of `core.built_in.http.OF_THE_RUN`, and the user's own values."""
    due, definition = ctx.due_at, ctx.definition
    return {
        "due_at": due.isoformat().replace("+00:00", "Z"),
        "due": {
            "date": due.date().isoformat(), "time": due.strftime("%H:%M:%S"), "year": due.year,
            "month": f"{due.month:02}", "day": f"{due.day:02}", "hour": f"{due.hour:02}",
            "minute": f"{due.minute:02}", "unix": int(due.timestamp()),
        },
        "job": {
            "id": str(ctx.job_id), "name": ctx.job_name, "key": ctx.job_key or "", "task": ctx.task,
            "queue": definition.queue, "tags": list(definition.tags), "metadata": decode(definition.metadata),
        },
        "number": ctx.number,
        "attempt": ctx.attempt,
        "execution_number": ctx.execution_number,
        "occurrence_key": ctx.occurrence_key,
        "execution_key": ctx.execution_key,
        "execution_id": str(ctx.execution_id),
        "args": {"values": dict(args.values)},
    }  # fmt: skip


def _one_line(value: str) -> str:
    if not value.isascii() or any(ord(each) < 32 and each != "\t" for each in value):
        raise Flaw("gives a header that is not one line of ASCII.")
    return value


def _is_one_of(status: int, ranges: tuple[Any, ...]) -> bool:
    return any(status in each for each in ranges)


def _refused(answer: Answer, args: HttpArgs) -> Exception:
    said = answer.body.decode("utf-8", "replace")[:SHOWN].strip()
    sentence = f"The answer was {answer.status}" + (f": {said}" if said else ".")
    return UnexpectedStatus(sentence) if _is_one_of(answer.status, args.retry) else GiveUp(sentence)


def _kept(answer: Answer, most: int) -> dict[str, Any]:
    """The answer, as JSON if it is that, else as text; nothing if nothing is to be kept."""
    if not most or not answer.body:
        return {}
    body = answer.body[:most]
    try:
        return {"json": json.loads(body)}
    except ValueError:
        return {"body": body.decode("utf-8", "replace"), "cut": len(answer.body) > most}


TASK = Task(http)
