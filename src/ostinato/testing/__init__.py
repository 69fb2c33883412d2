"""The test kit: an app on a manual clock and a temporary database.

    with simulate(app) as sim:
        sim.advance("36h")
        assert [run.status for run in sim.executions("refresh_prices")] == ["completed"] * 72

Time passes only when a test advances it, and then as fast as the work allows. The real dispatcher, worker and sweeper
fire, claim, run and settle each run at its own time. This package is not meant for production.
"""

from ostinato.clock import ManualClock
from ostinato.testing.process import Process
from ostinato.testing.simulation import Simulation, fixture, simulate

__all__ = ["ManualClock", "Process", "Simulation", "fixture", "simulate"]
