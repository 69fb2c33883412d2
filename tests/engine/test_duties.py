"""Duties of features: their loops in the engine, which wait until their feature has something to do."""

import sys

import pytest

from ostinato.config import Secret, Settings
from ostinato.engine.duties import LOOK_EVERY, EngineParts, duties_of_features
from ostinato.feature import Duty, Feature, Features
from ostinato.store.kernel import Kernel

CODE = """
STEPS = []

def start(engine):
    async def step():
        STEPS.append(engine.kernel.clock.now())
    return step
"""


@pytest.fixture
def parts(rig, tmp_path, monkeypatch):
    """Return the parts of an engine whose features are those given."""
    (tmp_path / "acme_duties").mkdir()
    (tmp_path / "acme_duties" / "__init__.py").write_text("")
    (tmp_path / "acme_duties" / "loop.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    __import__("acme_duties")

    def made(**fields) -> EngineParts:
        rig.store.database.features = Features([Feature(package="acme_duties", **fields)])
        settings = Settings(heartbeat_url=Secret("https://monitor.example.org"))
        return EngineParts(Kernel(rig.store, rig.clock, rig.chance), settings, rig.telemetry, None, in_store, list)

    yield made
    for name in [name for name in sys.modules if name.startswith("acme_duties")]:
        del sys.modules[name]


async def in_store(call):
    return call()


async def test_a_duty_is_imported_when_its_feature_has_rows_and_then_steps(parts, monkeypatch):
    made = parts(tables=("parcels",), duties=(Duty("loop", every=0.5),))
    awake = [False, True]
    monkeypatch.setattr(type(made.kernel.store), "is_awake", lambda *_: awake.pop(0))
    (duty,) = duties_of_features(made)
    await duty.step()
    assert ("acme_duties.loop" in sys.modules, duty.pause) == (False, LOOK_EVERY)
    await duty.step()
    await duty.step()
    assert (len(sys.modules["acme_duties.loop"].STEPS), duty.pause, awake) == (2, 0.5, [])


async def test_a_duty_of_a_setting_runs_only_where_the_setting_is_given(parts):
    made = parts(
        tables=("parcels",),
        duties=(Duty("loop", every=60.0, setting="heartbeat_url"), Duty("loop", every=1.0, setting="redis_url")),
    )
    (duty,) = duties_of_features(made)
    await duty.step()
    assert (len(sys.modules["acme_duties.loop"].STEPS), duty.pause) == (1, 60.0)
