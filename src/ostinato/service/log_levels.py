"""The words for how grave a line of a log is."""

from typing import Final, Literal

from ostinato.core.errors import Invalid

Word = Literal["debug", "info", "warning", "error", "critical"]

LEVELS: Final[dict[Word, int]] = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}
MOST_LINES: Final = 5_000  # of one page


def level_of(word: str | None) -> int:
    """The least level that somebody asks for; None: everything."""
    if word is None:
        return 0
    for known, level in LEVELS.items():
        if word.lower() == known:
            return level
    raise Invalid(f"There is no level {word[:60]!r}; there are {', '.join(LEVELS)}.")


def level_word(level: int) -> Word:
    """The gravest word that a level reaches: programs may count their own."""
    return next((word for word, least in reversed(LEVELS.items()) if level >= least), "debug")
