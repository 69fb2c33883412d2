"""The test kit: an app on a manual clock and a throwaway database, cranked by hand.

    with simulate(app) as sim:
        sim.advance("36h")
        assert [run.state for run in sim.executions("refresh_prices")] == ["completed"] * 72

Time passes only when a test says so, and then as fast as the work allows. Whatever is due meanwhile is fired, claimed,
run and settled by the real dispatcher, worker and sweeper, at its own time. Nothing of this is meant for production.
"""

from ostinato.clock import ManualClock
from ostinato.testing.process import Process
from ostinato.testing.simulation import Simulation, fixture, simulate

__all__ = ["ManualClock", "Process", "Simulation", "fixture", "simulate"]
