"""Exit codes."""

import errno
from typing import Final

from ostinato.core.errors import Conflict, Invalid, NotFound, OstinatoError, StoreError

DONE: Final = 0
FOUND_SOMETHING: Final = 1  # a check found a problem; also errors without a code of their own
BAD_INPUT: Final = 2
INTERRUPTED: Final = 130
# System errors caused by a file name in the input.
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
