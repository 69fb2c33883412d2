"""Names of log levels."""

from typing import Final, Literal

from ostinato.core.errors import Invalid

Word = Literal["debug", "info", "warning", "error", "critical"]

LEVELS: Final[dict[Word, int]] = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}
MOST_LINES: Final = 5_000  # of one page


def level_of(word: str | None) -> int:
    """Return the lowest level of a word; None: all levels."""
    if word is None:
        return 0
    for known, level in LEVELS.items():
        if word.lower() == known:
            return level
    raise Invalid(f"There is no level {word[:60]!r}; there are {', '.join(LEVELS)}.")


def level_word(level: int) -> Word:
    """Return the highest word that a level reaches; programs may use levels of their own."""
    return next((word for word, least in reversed(LEVELS.items()) if level >= least), "debug")
