"""The description of the task, and its arguments."""

from dataclasses import dataclass

from ostinato.core.arguments import arg, text
from ostinato.core.builtin import BuiltIn


@dataclass(frozen=True, slots=True, kw_only=True)
class ParcelArgs:
    address: str = arg(text(200), "Where the parcel goes.")


BUILT_INS = (BuiltIn("send_parcel", "Send a parcel.", ParcelArgs, subject=("address",)),)
