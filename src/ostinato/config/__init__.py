"""Settings: their values, kinds and secrets.

Nothing here opens, asks or starts anything; a secret by reference is read where it is needed.
"""

from ostinato.config.kinds import EngineKind, LogFormat, LogLevel, masked, written
from ostinato.config.secret import Grants, Secret
from ostinato.config.settings import BY_NAME, SETTINGS, Settings

__all__ = [
    "BY_NAME",
    "SETTINGS",
    "EngineKind",
    "Grants",
    "LogFormat",
    "LogLevel",
    "Secret",
    "Settings",
    "masked",
    "written",
]
