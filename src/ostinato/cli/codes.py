"""Exit codes."""

import errno
from typing import Final

from ostinato.core.errors import Conflict, Invalid, NotFound, OstinatoError, StoreError

DONE: Final = 0
FOUND_SOMETHING: Final = 1  # a check did; also whatever has no code of its own
BAD_INPUT: Final = 2
INTERRUPTED: Final = 130
# Errors of the system that a name in the input caused.
OF_INPUT: Final = frozenset(
    {errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG}
)
CODES: Final[tuple[tuple[type[OstinatoError], int], ...]] = (
    (Invalid, BAD_INPUT),
    (NotFound, 3),
    (Conflict, 4),
    (StoreError, 5),
)


def exit_code(error: OstinatoError) -> int:
    return next((code for kind, code in CODES if isinstance(error, kind)), FOUND_SOMETHING)
