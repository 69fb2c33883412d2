"""Args given at a run: how they are merged, and what an operator may set."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.core import lifecycle
from ostinato.core.access import Role
from ostinato.core.checks import check_definition, check_run_args, merge
from ostinato.core.errors import Forbidden, Invalid, WrongArgument
from ostinato.core.payload import decode, encode
from ostinato.feature import our_features
from tests.build import NOW, FixedChance, a_definition, a_job

ARGS = {"url": "https://example.org", "values": {"day": "mon", "city": "Paris"}, "keep": 0}


@pytest.mark.parametrize(
    ("given_at_run", "expected"),
    [
        ({}, ARGS),
        ({"keep": 5}, {**ARGS, "keep": 5}),
        ({"more": [1]}, {**ARGS, "more": [1]}),
        ({"keep": None}, {"url": ARGS["url"], "values": ARGS["values"]}),
        ({"values": {"day": "tue"}}, {**ARGS, "values": {"day": "tue"}}),
        ({"values.day": "tue"}, {**ARGS, "values": {"day": "tue", "city": "Paris"}}),
        ({"values.day": None}, {**ARGS, "values": {"city": "Paris"}}),
        ({"values.day": "tue", "values": {}}, {**ARGS, "values": {"day": "tue"}}),
        ({"new.day": 1}, {**ARGS, "new": {"day": 1}}),
    ],
)
def test_args_of_a_run_are_merged_by_name_and_null_removes_one(given_at_run, expected):
    assert merge(ARGS, given_at_run) == expected


def test_a_dotted_name_needs_an_object():
    with pytest.raises(Invalid, match=r"args\.keep of this job is not an object"):
        merge(ARGS, {"keep.day": 1})


def wants(run_args, **given_at_run):
    definition = a_definition(args=encode(ARGS), run_args=tuple(run_args))
    check_run_args(definition, encode(merge(ARGS, given_at_run)), Role.OPERATOR)


@pytest.mark.parametrize(
    ("run_args", "given_at_run"),
    [
        ((), {}),
        ((), {"keep": 0}),  # what the job says already
        ((), {"values": {"city": "Paris", "day": "mon"}}),
        (("keep",), {"keep": 1}),
        (("keep",), {"keep": None}),
        (("values",), {"values": {"x": 1}}),
        (("values",), {"values.day": 1}),
        (("values.day",), {"values.day": 1}),
        (("values.day",), {"values": {"day": 1, "city": "Paris"}}),
        (("new.day",), {"new.day": 1}),
    ],
)
def test_an_operator_sets_what_run_args_name(run_args, given_at_run):
    wants(run_args, **given_at_run)
    if run_args:  # and nothing else allows it
        with pytest.raises(Forbidden):
            wants((), **given_at_run)


@pytest.mark.parametrize(
    ("run_args", "given_at_run", "refused"),
    [
        ((), {"keep": 1}, "keep"),
        ((), {"keep": False}, "keep"),  # 0 in Python, another value in JSON
        ((), {"url": None}, "url"),
        ((), {"auth": {"type": "basic"}}, "auth.type"),
        (("keep",), {"keep": 1, "url": "http://sink/"}, "url"),
        (("keep.url",), {"url": "http://sink/"}, "url"),
        (("values.day",), {"values.city": "Rome"}, "values.city"),
        (("values.day",), {"values": {"day": 1}}, "values.city"),
        (("values.day",), {"values": None}, "values"),
        (("values.day",), {"values": "text"}, "values"),
        (("new.day",), {"new": {"day": 1, "more": 2}}, "new.more"),
        (("new.day",), {"new": {}}, "new"),
        (("val",), {"values": {}}, "values.city, values.day"),
    ],
)
def test_an_operator_is_refused_all_else_and_told_what_may_be_set(run_args, given_at_run, refused):
    allowed = f"only {', '.join(run_args)}" if run_args else "nothing"
    told = f"cannot set {refused} at a run of this job; its run_args allow {allowed}."
    with pytest.raises(Forbidden) as error:
        wants(run_args, **given_at_run)
    assert str(error.value).endswith(told)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 1) | st.sampled_from(["", "a"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
    max_leaves=6,
)
json_objects = st.dictionaries(st.sampled_from("abc"), json_values, max_size=3)


@given(json_objects, json_objects, st.sets(st.sampled_from(["a", "b", "a.a", "a.b", "b.c"])))
def test_whatever_an_operator_gives_what_is_not_named_stays_as_the_job_has_it(args, wanted, run_args):
    definition = a_definition(args=encode(args), run_args=tuple(sorted(run_args)))
    try:
        check_run_args(definition, encode(wanted), Role.OPERATOR)
    except Forbidden:
        return
    for name in "abc":
        if name in run_args:
            continue
        inner = [each.partition(".")[2] for each in run_args if each.startswith(f"{name}.")]
        before, after = args.get(name, ...), wanted.get(name, ...)
        if inner and isinstance(after, dict):
            before = {} if before is ... else before
            before, after = ({k: v for k, v in each.items() if k not in inner} for each in (before, after))
        assert (repr(before) == repr(after)) or encode(before) == encode(after)


def test_the_rule_of_a_run_refuses_an_operator_and_asks_no_admin():
    job = a_job(manual=True, args=encode(ARGS))
    args = encode({**ARGS, "keep": 1})
    with pytest.raises(Forbidden):
        lifecycle.run(job, [], args, NOW, FixedChance(), "ann", Role.OPERATOR)
    change = lifecycle.run(job, [], args, NOW, FixedChance(), "ann", Role.ADMIN)
    assert [decode(live.args)["keep"] for live in change.add] == [1]
    assert lifecycle.run(job, [], None, NOW, FixedChance(), "ann", Role.OPERATOR).add


# -- what run_args may name


@pytest.mark.parametrize("names", [[""], ["."], ["a."], [".a"], ["a" * 201], ["a"] * 51, ["\0"]])
def test_a_name_that_is_none_is_refused(names):
    with pytest.raises(Invalid):
        check_definition(a_definition(run_args=tuple(names)))


@pytest.mark.parametrize(
    ("task", "args", "names"),
    [
        ("http", {"url": "https://example.org/{{ args.values.day }}", "values": {"day": 1}}, ["values.day"]),
        ("http", {"url": "https://example.org/?d={{ args.values.day }}", "values": {"day": 1}}, ["values"]),
        (
            "http",
            {"url": "https://{{ args.values.host }}/", "values": {"host": "example.org"}},
            ["values.day"],
        ),
        ("python", {"function": "shop:run"}, ["args", "args.day"]),
        ("workflow", {"workflow": 1}, ["payload", "payload.day"]),
    ],
)
def test_a_built_in_task_opens_values_that_decide_nothing(task, args, names):
    our_features().built_in(task).check_open(args, names)
    with pytest.raises(WrongArgument, match="run_args cannot name other"):
        our_features().built_in(task).check_open(args, [*names, "other"])


@pytest.mark.parametrize(
    ("task", "args", "name"),
    [
        ("http", {"url": "https://example.org"}, "url"),
        ("http", {"url": "https://example.org"}, "auth"),
        ("http", {"url": "https://example.org"}, "auth.password"),
        ("http", {"url": "https://example.org"}, "headers"),
        ("python", {"function": "shop:run"}, "function"),
        ("workflow", {"workflow": 1}, "workflow"),
        ("workflow", {"workflow": 1}, "trigger"),
        ("command", {"argv": ["ls"]}, "argv"),
        ("command", {"argv": ["ls"]}, "env"),
        ("fetch", {"source": {}}, "source"),
        ("crawl", {"url": "https://example.org"}, "url"),
    ],
)
def test_a_built_in_task_opens_nothing_else(task, args, name):
    with pytest.raises(WrongArgument, match=rf"run_args cannot name {name}: the task {task} lets") as error:
        our_features().built_in(task).check_open(args, [name])
    assert error.value.field == "run_args"


@pytest.mark.parametrize(
    "url",
    [
        "https://{{ args.values.v }}/",
        "https://{{args.values.v}}.example.org/",
        "https://example.org{{ args.values.v }}",
        "https://example.org:808{{ args.values.v }}/",
        "https://{{ args.values.deep.v }}/",
    ],
)
@pytest.mark.parametrize("names", [["values"], ["values.v", "values.deep"]])
def test_a_value_that_chooses_the_server_is_not_opened(url, names):
    args = {"url": url, "values": {"v": "1", "deep": {"v": "1"}}}
    with pytest.raises(WrongArgument, match="scheme, host or port"):
        our_features().built_in("http").check_open(args, names)
