"""The supervisor's report about an ended run: an Outcome and an Account."""

import signal
from dataclasses import dataclass
from typing import Final, Self

from ostinato.core.account import Account, Stopped
from ostinato.core.outcome import Error, Failed, Interrupted, Lost, Outcome
from ostinato.core.policy import Policies
from ostinato.isolation import limits, system
from ostinato.isolation.frames import Frame, Head
from ostinato.isolation.orders import outcome_of

SUPERVISOR_LOST: Final = Lost("the supervisor of its process died")
NOT_STARTED: Final = Interrupted()  # no process could be started: the run waits and uses no retry


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of a run, and its account."""

    outcome: Outcome
    account: Account = Account()

    @classmethod
    def of(cls, frame: Frame, policies: Policies) -> Self:
        head, stopped = frame.head, frame.head.get("stopped")
        cpu, peak = head.get("cpu"), head.get("peak")
        account = Account(
            None if cpu is None else round(cpu / 1000),
            None if not peak else round(peak / system.MB, 1),
            None if stopped is None else Stopped(stopped),
            head.get("exit"),
            raised=head.get("raised"),
        )
        return cls(_outcome(head, frame.body, policies), account)


def _outcome(head: Head, body: bytes, policies: Policies) -> Outcome:
    if head.get("limit") is not None:
        return limits.exceeded(head["limit"], policies)
    if body:
        return outcome_of(body)
    where = f" {head['why']}" if "why" in head else ""
    if head.get("signal") == signal.SIGXCPU and policies.cpu_limit is not None:
        return limits.exceeded("CpuLimit", policies)
    if "signal" in head:
        return Failed(Error("Killed", f"Killed by {_name(head['signal'])}{where}"))
    if "exit" in head:
        return Failed(Error("Exited", f"The process exited with code {head['exit']}{where}"))
    return NOT_STARTED


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
