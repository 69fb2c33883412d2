"""Loading of the app of a command: `--app module:attribute`."""

import importlib
import os
import sys
import traceback
from importlib.util import find_spec
from types import ModuleType

from ostinato.app.app import Ostinato
from ostinato.config import Settings
from ostinato.core.errors import Invalid, InvalidSetting


def load_app(where: str | None) -> Ostinato:
    """Import the app that `module:attribute` names, also from the current folder. None: only built-in tasks."""
    if where is None:
        return Ostinato()
    module_name, _, attribute = where.partition(":")
    if not _is_dotted(module_name) or not attribute.isidentifier():
        raise Invalid(f"--app is written module:attribute, such as shop:app, not {where!r}.")
    module = _module(module_name)
    try:
        app = getattr(module, attribute)
    except AttributeError:
        raise Invalid(f"The module {module_name} has no {attribute}{_instead(module)}") from None
    if not isinstance(app, Ostinato):
        raise Invalid(f"{where} is not an Ostinato but {_a(app)}{_instead(module)}")
    return app


def _module(name: str) -> ModuleType:
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        there = find_spec(name) is not None
    except ModuleNotFoundError as error:  # a parent package is missing, or imports a missing module
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _broken(name, error) from None
        there = False
    except Exception as error:  # noqa: BLE001  a parent package may raise anything
        raise _broken(name, error) from None
    if not there:
        raise Invalid(f"There is no module {name} here ({os.getcwd()}) or among the installed packages.")
    try:
        return importlib.import_module(name)
    except Exception as error:  # noqa: BLE001  a user's module may raise anything
        raise _broken(name, error) from None


def _broken(name: str, error: Exception) -> Invalid:
    """Describe an import error with its line; a wrong setting is reported as such, not as the module's error."""
    if isinstance(error, InvalidSetting):
        try:
            Settings.load()
        except InvalidSetting as setting:
            return setting
    if isinstance(error, SyntaxError):
        where = f"{error.filename}, line {error.lineno}"
        return Invalid(f"The module {name} cannot be imported: {error.msg} ({where}).")
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "importlib" not in f.filename]
    ours = os.path.dirname(os.path.dirname(__file__))
    theirs = [f for f in frames if not f.filename.startswith((ours + os.sep, "<"))]
    where = f" ({theirs[-1].filename}, line {theirs[-1].lineno})" if theirs else ""
    return Invalid(f"The module {name} cannot be imported: {type(error).__name__}: {error}{where}")


def _is_dotted(name: str) -> bool:
    return all(part.isidentifier() for part in name.split("."))


def _instead(module: ModuleType) -> str:
    apps = [f"{module.__name__}:{name}" for name, value in vars(module).items() if isinstance(value, Ostinato)]
    return f"; did you mean {apps[0]}?" if apps else "; make one there: app = Ostinato()."


def _a(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
