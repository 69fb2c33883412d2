"""`fetch`: a source, fetched into its table. Its args: the definition, and a permission for one run."""

from dataclasses import dataclass
from typing import Any, Final

from ostinato.core.arguments import FieldKind, Flaw, arg, switch
from ostinato.core.builtin import BuiltIn, Permits
from ostinato.core.errors import Invalid, WrongArgument


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Flaw("must be the definition of a source: an object.")
    return value


DEFINITION: Final = FieldKind({"type": "object"}, _object)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchArgs:
    """The arguments of the task `fetch`."""

    source: dict[str, Any] = arg(DEFINITION, "The definition of a source: name, url, table, response …")
    allow_deletions: bool = arg(switch(), "Ignore limits.maxDeleted in this run.", False)


def _refuse(args: FetchArgs, permits: Permits) -> None:
    from ostinato.features.sources.rules import read_source

    try:
        read_source(args.source, egress=permits.egress)
    except Invalid as error:
        raise WrongArgument("args.source", f"args.source: {error}") from None


BUILT_INS: Final = (BuiltIn("fetch", "Fetch an HTTP API into a table.", FetchArgs, refuse=_refuse),)
