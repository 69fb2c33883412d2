"""`http`: send a request, and check the status of the answer.

Every attempt of an occurrence sends the same Idempotency-Key, so that the server can recognise a retry. A run whose
provider's budget is spent is deferred.
"""

import asyncio
import json
import time
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

from ostinato.core import arguments
from ostinato.core.addresses import host_of
from ostinato.core.arguments import Flaw, read
from ostinato.core.errors import Invalid, Unreachable
from ostinato.core.trace import shown
from ostinato.features.http.args import HttpArgs
from ostinato.outgoing import Bounds, Credentials, Reply
from ostinato.task import Context, GiveUp, RetryLater, Task
from ostinato.task.signals import hide_frames_of

SHOWN_BYTES: Final = 500  # bytes of an answer in an error
EDGE: Final = 4096  # bytes read beyond SHOWN_BYTES: half of a secret would not be recognised
LENGTH_DIGITS: Final = 16  # of a plausible Content-Length
LARGEST_ANSWER: Final = 16 * 1024 * 1024  # bytes, compressed and decompressed; the run stores less

hide_frames_of(__file__)  # errors of other servers are no bugs of Ostinato


class UnexpectedStatus(Exception):
    """The answer has an unexpected status, and a retry may help."""


async def http(ctx: Context, **given: Any) -> dict[str, Any]:
    """Send a request once."""
    args = read(HttpArgs, given)
    seconds = args.timeout.total_seconds()
    try:
        async with asyncio.timeout(seconds):
            return await _called(ctx, args, seconds)
    except TimeoutError:
        raise Unreachable(f"There was no complete answer within {seconds:g} s.") from None
    except (Unreachable, Invalid) as error:
        if isinstance(error, Unreachable) and error.transient:
            raise
        raise GiveUp(str(error)) from None


async def _called(ctx: Context, args: HttpArgs, seconds: float) -> dict[str, Any]:
    url, headers, body = _request(args, ctx)
    host, began = host_of(url), time.monotonic()
    ctx.progress(0, message=f"calling {host}")
    ctx.count(bytes_sent=len(body))
    bounds = Bounds(seconds, seconds, seconds, LARGEST_ANSWER, LARGEST_ANSWER, args.redirects or -1)
    credentials = Credentials(args.auth)
    async with ctx.outgoing.request(
        args.method, url, headers=headers, body=body, credentials=credentials, bounds=bounds
    ) as reply:
        progress = _AnswerProgress(ctx, reply, host)
        ctx.count(
            status=reply.status,
            requests=reply.hops,
            answered_after_ms=round(1000 * (time.monotonic() - began)),
        )
        if not _is_one_of(reply.status, args.expect):
            raise await _refused(reply, args, progress)
        kept = await _stored_part(reply, args.keep, progress)
        ctx.log.info("answered", status=reply.status, bytes=reply.unpacked)
        return {"status": reply.status, **kept}


class _AnswerProgress:
    """Progress of an answer."""

    def __init__(self, ctx: Context, reply: Reply, host: str) -> None:
        self._ctx, self._reply, self._message = ctx, reply, f"{reply.status} from {host}"
        length = reply.headers.get("content-length", "")
        self._of = int(length) if length.isdecimal() and len(length) < LENGTH_DIGITS else None
        self.so_far()

    def so_far(self) -> None:
        received = self._reply.received
        of = self._of if self._of and received <= self._of else None
        self._ctx.progress(received, of, self._message)
        self._ctx.count(bytes_received=received)


def _request(args: HttpArgs, ctx: Context) -> tuple[str, dict[str, str], bytes]:
    names = _names(ctx, args)
    try:
        url = arguments.fill_text(args.url, names, lambda value: quote(value, safe=""))
        headers = {name: _one_line(arguments.fill_text(value, names)) for name, value in args.headers.items()}
        body, kind = _body(args, names)
    except Flaw as flaw:
        raise GiveUp(f"A template of the job {flaw.rest}") from None
    if _dot_segments(url) != _dot_segments(args.sample_url()):
        raise GiveUp("A value in the url of the job is . or .., which would lead to another folder: use another.")
    usual = {} if kind is None or "content-type" in map(str.lower, headers) else {"content-type": kind}
    return url, usual | headers | _run_headers(ctx, args), body


def _dot_segments(url: str) -> list[str]:
    return [part for part in urlsplit(url).path.split("/") if unquote(part) in (".", "..")]


def _body(args: HttpArgs, names: Mapping[str, Any]) -> tuple[bytes, str | None]:
    if args.json is not None:
        filled = arguments.fill(args.json, names)
        return json.dumps(filled, ensure_ascii=False).encode(), "application/json"
    if args.body is not None:
        return arguments.fill_text(args.body, names).encode(), "text/plain; charset=utf-8"
    return b"", None


def _run_headers(ctx: Context, args: HttpArgs) -> dict[str, str]:
    key = {"idempotency-key": ctx.occurrence_key} if args.idempotency_key else {}
    return key | {
        "x-job-id": str(ctx.job_id),
        "x-execution-key": ctx.execution_key,
        "x-attempt": str(ctx.attempt),
    }


def _names(ctx: Context, args: HttpArgs) -> dict[str, Any]:
    """Return the names for templates: those of `core.built_in.http.OF_THE_RUN`, and the user's own values."""
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
            "queue": definition.queue, "tags": list(definition.tags), "metadata": shown(definition.metadata),
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


async def _refused(reply: Reply, args: HttpArgs, progress: _AnswerProgress) -> Exception:
    begins = (await _beginning(reply, SHOWN_BYTES + EDGE, progress)).decode("utf-8", "replace")
    said = reply.hide(begins)[:SHOWN_BYTES].strip()
    sentence = f"The answer was {reply.status}" + (f": {said}" if said else ".")
    if not _is_one_of(reply.status, args.retry):
        return GiveUp(sentence)
    wait = reply.asked.wait
    return UnexpectedStatus(sentence) if wait is None else RetryLater(wait, sentence)


async def _stored_part(reply: Reply, most: int, progress: _AnswerProgress) -> dict[str, Any]:
    """Return the answer as JSON or text; empty if the job stores nothing of it."""
    body = await _beginning(reply, most + EDGE, progress) if most else b""
    if not body:
        return {}
    text = reply.hide(body.decode("utf-8", "replace"))
    if len(body) > most:
        return {"body": text.encode()[:most].decode("utf-8", "ignore"), "cut": True}
    try:
        return {"json": json.loads(text)}
    except (ValueError, RecursionError):
        return {"body": text}


async def _beginning(reply: Reply, most: int, progress: _AnswerProgress) -> bytes:
    read = b""
    while len(read) < most and (part := await reply.read(most - len(read))):
        read += part
        progress.so_far()
    return read


TASKS: Final = {"http": Task(http)}
