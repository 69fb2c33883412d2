"""The arguments of `fetch`."""

from typing import Final

from ostinato.core.builtin.fetch import BUILT_IN

BUILT_INS: Final = (BUILT_IN,)
