"""Settings: their values, kinds and secrets.

This package opens and starts nothing. A secret that is given by reference is read when it is used.
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
