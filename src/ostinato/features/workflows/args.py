"""The arguments of `workflow`."""

from typing import Final

from ostinato.core.builtin.workflow import BUILT_IN

BUILT_INS: Final = (BUILT_IN,)
