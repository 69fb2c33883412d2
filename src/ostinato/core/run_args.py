"""Args given at a run: merged over the job's, and limited to `run_args` for operators.

    job args      {"url": "https://…", "values": {"day": "mon", "city": "Paris"}}
    given         {"values.day": "tue"}         one value inside an object
    given         {"values": {"day": "tue"}}    the whole object: `city` is removed
    given         {"values": null}              the argument is removed

For operators the merged args are checked: `run_args` must name each value that differs from the job's, or the object
around it.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from ostinato.core.access import Role
from ostinato.core.errors import Forbidden, Invalid
from ostinato.core.model import Definition, Json
from ostinato.core.payload import CANONICAL, decode

MOST_NAMES: Final = 50
LONGEST_PATH: Final = 200


def merge(args: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the job's args with those given at a run; whole arguments first, then values inside them."""
    found = dict(args)
    for name in sorted(given, key=lambda each: "." in each):
        outer, dot, inner = name.partition(".")
        if dot:
            found[outer] = _with(_object(found.get(outer), outer, name), inner, given[name])
        else:
            found = _with(found, name, given[name])
    return found


def check_run_args(definition: Definition, wanted: Json, role: Role) -> None:
    """Raise Forbidden if a run with these args needs a role above this one."""
    if role.allows(Role.ADMIN):
        return
    may_set = definition.policies.run_args
    refused = [
        name
        for name in _differences(decode(definition.args), decode(wanted))
        if name not in may_set and name.partition(".")[0] not in may_set
    ]
    if refused:
        allowed = f"only {', '.join(may_set)}" if may_set else "nothing"
        raise Forbidden(
            f"The role {role.value} cannot set {', '.join(refused)} at a run of this job; its run_args allow {allowed}."
        )


def run_args_flaw(names: Collection[str]) -> str | None:
    """Return the error of a list of names, if there is one."""
    if len(names) > MOST_NAMES:
        return f"run_args has at most {MOST_NAMES} names."
    for name in names:
        if not 0 < len(name) <= LONGEST_PATH or not all(name.split(".", 1)):
            return f"run_args holds names of args, such as day or values.day, not {name[:60]!r}."
    return None


def _with(values: Mapping[str, Any], name: str, value: Any) -> dict[str, Any]:
    others = {each: kept for each, kept in values.items() if each != name}
    return others if value is None else others | {name: value}


def _object(value: Any, outer: str, name: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return value
    raise Invalid(f"args.{name}: args.{outer} of this job is not an object; set {outer} as a whole.")


def _differences(args: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[str]:
    """Name each value that is not the same in both; inside objects one level deeper."""
    for name in _changed(args, wanted):
        before, after = args.get(name), wanted.get(name)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            yield from (f"{name}.{inner}" for inner in _changed(before, after))
        elif name not in args and isinstance(after, Mapping) and after:
            yield from (f"{name}.{inner}" for inner in sorted(after))
        else:
            yield name


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Compare as JSON does: true is not 1, and the order of names does not count."""
    return sorted(
        name
        for name in before.keys() | after.keys()
        if name not in before or name not in after or CANONICAL(before[name]) != CANONICAL(after[name])
    )
