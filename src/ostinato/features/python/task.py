"""`python`: call `module:function` in a process of its own.

`args.py` has checked that the module is allowed. The function must be defined in that module or below it:
other functions that the module imports (`os.system`) are not allowed.
"""

import asyncio
from importlib import import_module
from typing import Any, Final

from ostinato.core.arguments import read
from ostinato.core.errors import Invalid
from ostinato.core.policy import Isolation
from ostinato.features.python.args import PythonArgs, is_below
from ostinato.task import Context, GiveUp, Task


def python(ctx: Context, **given: Any) -> Any:
    """Call a function with arguments and return its result."""
    args = read(PythonArgs, given)
    task = _found(args)
    try:
        arguments = task.arguments(dict(args.args))
    except Invalid as error:
        raise GiveUp(str(error)) from None
    if task.is_async:
        return asyncio.run(task.call(ctx, arguments))
    return task.call(ctx, arguments)


def _found(args: PythonArgs) -> Task[..., Any]:
    try:
        module = import_module(args.module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{args.module}.".startswith(f"{error.name}."):
            raise
        raise GiveUp(f"There is no module {args.module} on this worker.") from None
    found = getattr(module, args.name, None)
    function = found.function if isinstance(found, Task) else found
    if not callable(function):
        raise GiveUp(f"There is no function {args.name} in the module {args.module}.")
    home = getattr(function, "__module__", None) or ""
    if not is_below(home, (args.module,)):
        raise GiveUp(f"{args.function} is defined in {home or 'no module'}: name a function where it is defined.")
    return Task(function, args.name)


TASKS: Final = {"python": Task(python, isolation=Isolation.PROCESS)}
