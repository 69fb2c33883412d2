"""Loops of the engine that features declare."""

import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Final

from ostinato.config import Settings
from ostinato.config.extras import install
from ostinato.feature import Duty, Feature
from ostinato.outgoing import Outgoing
from ostinato.store.kernel import InStore, Kernel
from ostinato.telemetry.reports import Telemetry, log_line

Step = Callable[[], Awaitable[object]]

LOOK_EVERY: Final = 2.0  # seconds between looks at a feature that is asleep


@dataclass(frozen=True, slots=True)
class EngineParts:
    """The parts of an engine that a duty of a feature may use."""

    kernel: Kernel
    settings: Settings
    telemetry: Telemetry
    outgoing: Outgoing
    in_store: InStore
    troubles: Callable[[], list[str]]  # the problems of this process; it waits for the database


class FeatureDuty:
    """A duty of a feature: its file is imported when the feature is awake.

    Without the extra of the feature the duty is left to other workers; a log line says so once.
    """

    def __init__(self, feature: Feature, duty: Duty, parts: EngineParts) -> None:
        self._feature, self._duty, self._parts = feature, duty, parts
        self._step: Step | None = None
        self._left = False

    @property
    def pause(self) -> float:
        """Seconds until the next step."""
        return self._duty.every if self._step is not None else max(self._duty.every, LOOK_EVERY)

    async def step(self) -> None:
        if self._step is None and not self._left:
            self._step = await self._parts.in_store(self._wake)
        if self._step is not None:
            await self._step()

    def _wake(self) -> Step | None:
        if not self._duty.setting and not self._parts.kernel.store.is_awake(self._feature):
            return None
        if not self._feature.is_installed:
            self._leave()
            return None
        step: Step = self._feature.file(self._duty.file).start(self._parts)
        return step

    def _leave(self) -> None:
        self._left = True
        feature = self._feature
        log_line(logging.WARNING, "Left to other workers", what=feature.name, install=install(feature.extra))


def duties_of_features(parts: EngineParts) -> Iterator[FeatureDuty]:
    """Yield the duties of all features whose settings are given. Raise MissingExtra if such a setting needs one."""
    for feature in parts.kernel.store.database.features:
        for duty in feature.duties:
            if duty.setting and not getattr(parts.settings, duty.setting):
                continue
            if duty.setting:
                feature.require(f"The setting {duty.setting}")
            yield FeatureDuty(feature, duty, parts)
