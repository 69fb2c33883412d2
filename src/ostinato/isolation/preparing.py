"""Setup of a new process like the worker: the same folder, path and arguments, and the user's modules.

The worker's main module is run again under the name `__mp_main__`, as multiprocessing does. Code under
`if __name__ == "__main__":` does not run, so it starts no second worker.
"""

import importlib
import json
import os
import runpy
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from types import ModuleType
from typing import Final, Self

from ostinato.core.errors import Conflict
from ostinato.core.outcome import Error
from ostinato.task.around import MAIN, MAIN_AGAIN
from ostinato.task.signals import described

_LOADING: Final = list[str]()  # the modules that this process is importing now to find tasks


def refuse_to_start(what: str) -> None:
    """Raise Conflict in a process for tasks that only imports the program to find its tasks."""
    if _LOADING:
        raise Conflict(
            f"This process imports the program to run a task, and would start a second scheduler: "
            f'put {what} under if __name__ == "__main__":'
        )


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The environment of the worker's code."""

    path: list[str]
    argv: list[str]
    folder: str
    modules: list[str]
    main_module: str | None  # started as `python -m main_module`
    main_path: str | None  # started as `python main_path`
    log_level: int

    @classmethod
    def here(cls, modules: list[str], log_level: int) -> Self:
        """Return the surroundings of this process."""
        main = sys.modules[MAIN]
        name = getattr(getattr(main, "__spec__", None), "name", None)
        file = getattr(main, "__file__", None)
        return cls(
            path=[each or os.getcwd() for each in sys.path],
            argv=list(sys.argv),
            folder=os.getcwd(),
            modules=modules,
            main_module=name,
            main_path=None if file is None else os.path.abspath(file),
            log_level=log_level,
        )

    def to_json(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, text: bytes) -> Self:
        return cls(**json.loads(text))

    def enter(self) -> None:
        """Apply the folder, path and arguments to this process."""
        sys.path[:] = self.path
        sys.argv[:] = self.argv
        with suppress(OSError):  # the folder may be deleted
            os.chdir(self.folder)

    def import_all(self) -> dict[str, Error]:
        """Import the modules; return the errors by module, for the runs that need it."""
        broken = dict[str, Error]()
        for name in self.modules:
            try:
                self.load(name)
            except BaseException as error:  # noqa: BLE001  any error of a module, SystemExit too
                broken[name] = described(error)
        return broken

    def load(self, name: str) -> None:
        """Import a module of the user. It must not start an app meanwhile."""
        _LOADING.append(name)
        try:
            if name != MAIN:
                importlib.import_module(name)
            elif MAIN_AGAIN not in sys.modules:
                self._run_main_again()
        finally:
            _LOADING.pop()

    def _run_main_again(self) -> None:
        if self.main_module is not None:
            found = runpy.run_module(self.main_module, run_name=MAIN_AGAIN, alter_sys=True)
        elif self.main_path is not None:
            found = runpy.run_path(self.main_path, run_name=MAIN_AGAIN)
        else:
            raise ImportError("The program was typed in or piped in: a task in a process needs a file.")
        module = ModuleType(MAIN_AGAIN)
        module.__dict__.update(found)
        sys.modules[MAIN] = sys.modules[MAIN_AGAIN] = module
