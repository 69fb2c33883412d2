"""Rules of the bridge, pure: priorities, and the arguments of a call by name and as they were given."""

from collections.abc import Mapping
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import Any, Final

USUAL: Final = 5  # our priority of Django's 0
STEPS_UP, STEPS_DOWN = 4, 5  # our priorities above and below it
HIGHEST: Final = 100  # of Django's, as far as the lowest is below 0


def our_priority(theirs: int) -> int:
    """Return our priority, 1 to 10, for Django's, -100 to 100: theirs rises with the urgency, ours falls."""
    if theirs > 0:
        return USUAL - _part(theirs, STEPS_UP)
    return USUAL + _part(-theirs, STEPS_DOWN)


def _part(distance: int, parts: int) -> int:
    """Return the part of 1 … HIGHEST that a number is in, from 1; 0 for 0."""
    return -(-distance * parts // HIGHEST)


@dataclass(frozen=True, slots=True)
class CallArgs:
    """Arguments of a call, by place and by name."""

    args: list[Any]
    kwargs: dict[str, Any]


def parameters_of(signature: Signature, *, takes_context: bool) -> Signature:
    """Return the parameters that a caller gives: without Django's context."""
    return signature.replace(parameters=list(signature.parameters.values())[int(takes_context) :])


def by_name(signature: Signature, call: CallArgs) -> dict[str, Any]:
    """Return the arguments of a call by name; raise TypeError as the call itself would."""
    named: dict[str, Any] = {}
    more: dict[str, Any] = {}
    for name, value in signature.bind(*call.args, **call.kwargs).arguments.items():
        match signature.parameters[name].kind:
            case Parameter.VAR_KEYWORD:
                more = value
            case Parameter.VAR_POSITIONAL:
                named[name] = list(value)
            case _:
                named[name] = value
    if twice := sorted(named.keys() & more.keys()):
        raise TypeError(f"{twice[0]!r} is the name of a parameter that takes no keyword")
    return named | more


def as_given(signature: Signature, named: Mapping[str, Any], positional: int) -> CallArgs:
    """Return the call of which `by_name` made these arguments, if so many of them were positional.

    A job that was made elsewhere has 0 of them: then only those are positional that can be nothing else.
    """
    args, kwargs = list[Any](), dict(named)
    kinds = {each.name: each.kind for each in signature.parameters.values() if each.name in named}
    all_by_place = Parameter.VAR_POSITIONAL in kinds.values()  # further ones follow
    for name, kind in kinds.items():
        if kind is Parameter.VAR_POSITIONAL:
            args += kwargs.pop(name)
        elif kind is Parameter.POSITIONAL_ONLY or (
            kind is Parameter.POSITIONAL_OR_KEYWORD and (all_by_place or len(args) < positional)
        ):
            args.append(kwargs.pop(name))
    return CallArgs(args, kwargs)


def open_to_names(signature: Signature) -> Signature:
    """Return the parameters as args are stored, by name: *more is a list."""
    return signature.replace(parameters=[_by_name(each) for each in signature.parameters.values()])


def _by_name(each: Parameter) -> Parameter:
    match each.kind:
        case Parameter.POSITIONAL_ONLY:
            return each.replace(kind=Parameter.POSITIONAL_OR_KEYWORD)
        case Parameter.VAR_POSITIONAL:
            return Parameter(each.name, Parameter.KEYWORD_ONLY, default=[], annotation=list)
        case _:
            return each
