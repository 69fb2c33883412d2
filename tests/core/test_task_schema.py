"""Args are judged by the schema of their task: by name and by type."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import pytest

from ostinato import Context, Invalid
from ostinato.core.errors import WrongArgument
from ostinato.core.task_schema import check_by_schema
from ostinato.task import Task
from ostinato.task.parameters import schema_of


class Mood(StrEnum):
    GOOD = "good"


class Point(NamedTuple):
    x: int
    y: int


class Person(TypedDict):
    name: str


def typed(x: int): ...
def nothing(): ...
def optional(x: int | None, y: int = None, flag: bool = False): ...  # noqa: RUF013
def decimal(x: float): ...
def choice(x: Literal["a", 1]): ...
def lists(x: list[int], y: Sequence[str] = ()): ...
def pairs(x: tuple[int, str], y: tuple[int, ...] = ()): ...
def objects(x: dict[str, int], y: Mapping[str, Any] | None = None): ...
def moments(at: datetime, wait: timedelta = "1s"): ...
def special(mood: Mood, point: Point, raw: bytes, person: Person): ...
def loose(ctx: Context, x: Annotated[int, ["unhashable"]] = 1, **more: object): ...
def whole(payload: dict[str, int], job: object): ...
def plain(x, y=2): ...


FITS = [
    (typed, {"x": 1}), (nothing, {}), (optional, {"x": None}), (optional, {"x": 1, "y": None, "flag": True}),
    (decimal, {"x": 1}), (decimal, {"x": 1.5}), (choice, {"x": "a"}), (choice, {"x": 1}),
    (lists, {"x": []}), (lists, {"x": [1, 2], "y": ["a"]}), (pairs, {"x": [1, "a"], "y": [1, 2]}),
    (objects, {"x": {"a": 1}}), (objects, {"x": {}, "y": {"a": [None]}}),
    (moments, {"at": "2026-11-18T09:00:00Z", "wait": 30}), (moments, {"at": "soon", "wait": "5m"}),
    (special, {"mood": "good", "point": [1, 2], "raw": "AAAA", "person": {"name": "Ann"}}),
    (loose, {"x": 2, "other": [1]}), (whole, {"anything": "goes"}), (whole, {"payload": {"a": 1}}),
    (plain, {"x": {"any": "thing"}, "y": None}),
]  # fmt: skip

REFUSED = [
    (typed, {"q": 1}, "args.q does not exist; there are x."),
    (optional, {"x": 1, "flg": True}, "args.flg does not exist; did you mean flag?"),
    (nothing, {"q": 1}, "args.q does not exist; the task takes no args."),
    (typed, {}, "args.x is required."),
    (typed, {"x": "notint"}, "args.x must be a whole number, not 'notint'."),
    (typed, {"x": True}, "args.x must be a whole number, not True."),
    (typed, {"x": 1.5}, "args.x must be a whole number, not 1.5."),
    (typed, {"x": None}, "args.x must be a whole number, not None."),
    (optional, {"x": "a"}, "args.x must be a whole number or null, not 'a'."),
    (optional, {"x": 1, "flag": 1}, "args.flag must be true or false, not 1."),
    (decimal, {"x": "1.5"}, "args.x must be a number, not '1.5'."),
    (choice, {"x": True}, "args.x must be one of 'a', 1, not True."),
    (lists, {"x": [1, "b"]}, "args.x[1] must be a whole number, not 'b'."),
    (lists, {"x": "1"}, "args.x must be a list, not '1'."),
    (pairs, {"x": {}}, "args.x must be a list, not {}."),
    (objects, {"x": {"a": "b"}}, "args.x.a must be a whole number, not 'b'."),
    (moments, {"at": 1}, "args.at must be text, not 1."),
    (loose, {"x": "a"}, "args.x must be a whole number, not 'a'."),
    (whole, {"payload": {"a": "b"}}, "args.payload.a must be a whole number, not 'b'."),
]  # fmt: skip


def as_read(function) -> dict[str, Any]:
    """The schema as another process reads it."""
    return json.loads(json.dumps(schema_of(Task(function))))


@pytest.mark.parametrize(("function", "args"), FITS)
def test_args_that_fit_pass_by_the_schema_and_by_the_function(function, args):
    check_by_schema(as_read(function), args)
    Task(function).check(args)
    if function is not whole:
        Task(function).bind(**args)


@pytest.mark.parametrize(("function", "args", "sentence"), REFUSED)
def test_args_that_do_not_fit_are_refused_with_the_place(function, args, sentence):
    with pytest.raises(WrongArgument) as refused:
        check_by_schema(as_read(function), args)
    assert str(refused.value) == sentence
    assert sentence.startswith(f"{refused.value.field} ")


@pytest.mark.parametrize(("function", "args", "_"), REFUSED)
def test_python_refuses_the_same_when_a_call_is_bound(function, args, _):
    with pytest.raises(Invalid):
        Task(function).bind(**args)


def test_the_value_of_an_arg_may_not_be_known_yet():
    check_by_schema(as_read(typed), {"x": {"$ref": "a.result"}}, unsettled=["x"])


def test_a_schema_of_a_newer_worker_refuses_nothing_that_is_not_understood_here():
    newer = {"properties": {"x": {"type": "vector"}}, "required": [], "additionalProperties": False}
    check_by_schema(newer, {"x": True})
    check_by_schema(newer, {"x": [1]})
