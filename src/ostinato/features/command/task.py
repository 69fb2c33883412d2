"""`command`: run a program in a process of its own, which ends with its worker and ends the program too.

The program's output goes through the pipes of that process to the log of the execution, line by line, not through this
code. Its size and its last line become counters and progress. The supervisor checks limits, asks the program to stop,
and kills it with all its processes: see `ostinato.isolation`.
"""

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from typing import Any, Final

from ostinato.config.secret import Grants
from ostinato.core.arguments import read
from ostinato.core.policy import Isolation, Policies
from ostinato.core.times import format_duration
from ostinato.features.command.args import CommandArgs
from ostinato.task import Context, Task
from ostinato.task.signals import hide_frames_of

SHELL: Final = "/bin/sh"

hide_frames_of(__file__)  # a failed program is no bug of Ostinato


class CommandFailed(Exception):
    """The program could not be started, or ended with an unexpected exit code or signal."""


class CpuLimit(Exception):
    """The program has used its CPU seconds."""


def command(ctx: Context, **given: Any) -> dict[str, Any]:
    """Run a program to its end."""
    args = read(CommandArgs, given)
    began = time.monotonic()
    code = _run(args, _environment(ctx, args))
    seconds = round(time.monotonic() - began, 3)
    if code >= 0:
        ctx.count(exit_code=code)  # for failures too
    if code not in args.exit_codes:
        raise _failure(code, args, ctx.definition.policies)
    return {"exit_code": code, "seconds": seconds}


def _run(args: CommandArgs, environment: Mapping[str, str]) -> int:
    """Run the program and return its exit code, negative for a signal. It is in this process's group to be stopped."""
    shell = args.env.get("SHELL", SHELL)  # as in cron
    argv = [shell, "-c", args.script] if args.script is not None else list(args.argv or ())
    given = subprocess.DEVNULL if args.stdin is None else subprocess.PIPE
    try:
        process = subprocess.Popen(argv, stdin=given, cwd=args.cwd, env=environment)
    except (OSError, ValueError) as error:
        raise CommandFailed(_why_not(error, argv[0], args)) from None
    if args.stdin is not None:
        process.communicate(args.stdin.encode())  # a program may leave its input unread
    return process.wait()


def _environment(ctx: Context, args: CommandArgs) -> dict[str, str]:
    """Return the environment: variables that the administrator allows, those of the job, and the run's ids."""
    inherited = {name: os.environ[name] for name in ctx.permits.environment if name in os.environ}
    grants = Grants.of(ctx.permits)
    secrets = {name: grants.reveal(where) for name, where in args.secrets.items()}
    return {
        **inherited,
        **args.env,
        **secrets,
        "OSTINATO_RUN_JOB": str(ctx.job_id),
        "OSTINATO_RUN_KEY": ctx.occurrence_key,
        "OSTINATO_RUN_ATTEMPT": str(ctx.attempt),
        "OSTINATO_RUN_DUE_AT": ctx.due_at.isoformat(),
    }


def _why_not(error: OSError | ValueError, program: str, args: CommandArgs) -> str:
    if isinstance(error, ValueError):
        return f"{program} cannot be started: {error}."
    if args.cwd is not None and not os.path.isdir(args.cwd):
        return f"{program} cannot be started: there is no directory {args.cwd} on this worker."
    return f"{program} cannot be started on this worker: {error.strerror}."


def _failure(code: int, args: CommandArgs, policies: Policies) -> Exception:
    if code == -signal.SIGXCPU and policies.cpu_limit is not None:
        return CpuLimit(format_duration(policies.cpu_limit))
    if code < 0:
        return CommandFailed(f"The program was ended by {_signal(-code)}.")
    expected = ", ".join(map(str, args.exit_codes))
    return CommandFailed(f"The program ended with exit code {code}; expected was {expected}.")


def _signal(number: int) -> str:
    try:
        return f"the signal {signal.Signals(number).name}"
    except ValueError:
        return f"signal {number}"


TASKS: Final = {"command": Task(command, isolation=Isolation.PROCESS)}
