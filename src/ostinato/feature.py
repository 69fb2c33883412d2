"""What a feature hands to the kernel: one value, and files whose names the kernel and its frames know.

A feature is a folder. Its `__init__.py` holds the value `FEATURE` and imports nothing but this module. The rest is
imported when it is first needed, and found by its name:

    *.sql          named statements, and migrations/NNNN_name.sql: the tables of the feature
    endpoints.py   `TABLE`: what can be asked over HTTP and at the terminal
    cli.py         `GROUPS`: groups of commands by name; `COMMANDS`: others by path, such as "export" and "job convert"
    pages.py       `ROUTES`: pages of the dashboard, with their templates/; templates/panel_TASK.html is a part of the
                   pages of the jobs and executions of a task; `SECTIONS`: sections of an execution's page
    args.py        `BUILT_INS`: the descriptions of its tasks, and task.py `TASKS`: their code by name
    calls.py       `CALLS`: what a running task may ask of its worker, as `ctx.call("feature.name", request)`
    steps.py       `STEPS`: the rules of tasks whose runs queue steps, by task: classes of a store (store/locking.py)
    gate.py        `gate(kernel, in_store)`: the gate that each request to another host passes; one feature has it
    removal.sql    statements that delete rows of removed jobs, some at a time: `:ids` of the jobs, `:limit` of the rows
    tidy.py        `tidy(kernel, now)`: deletes rows that are only old; the sweeper calls it from time to time
    references.py  `references(store)`: users and references of the secrets that its rows name, for `doctor`
    metrics.py     `COUNTED`: counts of this process for `/metrics`
    engine.py      `messenger(…)`, `workers(…)`: if the setting `engine` names the feature, others run what is due
    a duty         `start(engine)`: the step of a loop of the engine; the value names the file

A feature is asleep while all its tables are empty: its duties, tidy.py and references.py are not even imported. A part
of the store (`store.part`) may add itself to `store.writers`: it then writes in the transactions that change jobs.

Other files are the feature's own; by custom they are rules, rows, service and shapes.

Features of other packages are entry points of the group `ostinato.features`. Only those that the setting `features`
names are looked for and imported: nothing that is installed starts by itself.
"""

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from ostinato.config.extras import install, is_installed, need
from ostinato.core.builtin import BuiltIn, Permits
from ostinato.core.errors import Invalid, InvalidSetting

OURS: Final = "ostinato.features"  # the package that lists the features that come with Ostinato
GROUP: Final = "ostinato.features"  # of entry points
STATEMENT: Final = re.compile(r"^-- name: (\w+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Duty:
    """A loop of the engine: it waits and calls a step, again and again."""

    file: str
    every: float  # seconds
    setting: str = ""  # the loop runs where this setting is given; without a name, while the feature is awake


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Feature:
    """One feature, as its folder declares it."""

    package: str  # `__name__` of the folder
    uses: tuple[str, ...] = ()  # names of features whose modules it may import
    extra: str = ""  # the extra of the package that brings what it needs
    needs: tuple[str, ...] = ()  # modules of its extra; without them its tasks and duties are left to other workers
    tables: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()  # names of built-in tasks
    secrets: Mapping[str, str] = field(default_factory=dict)  # tasks whose args may name some: see `Features.secrets`
    commands: Mapping[str, str] = field(default_factory=dict)  # groups of commands, and their help
    menu: tuple[tuple[int, str, str], ...] = ()  # pages in the menu: place, path, title
    events: Mapping[str, str] = field(default_factory=dict)  # kinds of events to filter by, and their words
    duties: tuple[Duty, ...] = ()

    @property
    def name(self) -> str:
        return self.package.rpartition(".")[2]

    @property
    def folder(self) -> Path:
        return Path(next(iter(sys.modules[self.package].__path__)))

    @property
    def is_installed(self) -> bool:
        """True if the modules of its extra are there."""
        return all(map(is_installed, self.needs))

    def require(self, what: str) -> None:
        """Raise MissingExtra unless the modules of its extra are there."""
        for module in self.needs:
            need(self.extra, module, what)

    def file(self, name: str) -> Any:
        """Import a file that the value declares."""
        found = self.module(name)
        if found is None:
            raise InvalidSetting(f"The feature {self.package} declares what is in {name}.py, but has no such file.")
        return found

    def module(self, name: str) -> ModuleType | None:
        """Import a file of the feature; None if it has none of this name."""
        return import_module(f"{self.package}.{name}") if self.has(name) else None

    def has(self, name: str) -> bool:
        """Return True if the feature has a file of this name, without importing it."""
        full = f"{self.package}.{name}"
        return full in sys.modules or find_spec(full) is not None


class Features:
    """The features of a process."""

    def __init__(self, features: Sequence[Feature] = ()) -> None:
        self._features = tuple(features)
        self.tasks: Final[Mapping[str, Feature]] = _owners({each: each.tasks for each in features}, "task")
        self.tables: Final = frozenset(_owners({each: each.tables for each in features}, "table"))
        _owners({each: (each.name,) for each in features}, "feature")
        _owners({each: tuple(each.commands) for each in features}, "group of commands")

    def __iter__(self) -> Iterator[Feature]:
        return iter(self._features)

    def named(self, name: str) -> Feature | None:
        return next((each for each in self if each.name == name), None)

    def modules(self, name: str) -> Iterator[ModuleType]:
        """Import the files of this name."""
        return (module for each in self if (module := each.module(name)) is not None)

    def folders(self, name: str) -> dict[str, Path]:
        """Return the folders of this name, by feature."""
        return {each.name: path for each in self if (path := each.folder / name).is_dir()}

    # -- tasks

    @cached_property
    def runnable(self) -> Mapping[str, Callable[[], Any]]:
        """The built-in tasks whose libraries are installed, to be imported at first use."""
        return {name: partial(self.task, name) for name, feature in self.tasks.items() if feature.is_installed}

    def task(self, name: str) -> Any:
        """Import a built-in task."""
        return self.tasks[name].file("task").TASKS[name]

    def install(self, name: str) -> str:
        """Return the command that installs what a built-in task needs; empty if the library alone has it."""
        feature = self.tasks.get(name)
        return install(feature.extra) if feature is not None and feature.extra else ""

    @cache  # noqa: B019  there is one object for a process
    def built_in(self, name: str) -> BuiltIn:
        """Import the description of a built-in task."""
        described: Sequence[BuiltIn] = self.tasks[name].file("args").BUILT_INS
        return next(each for each in described if each.name == name)

    @cached_property
    def secrets(self) -> Mapping[str, str]:
        """The built-in tasks whose args may name secrets; with the arg that holds these args, else ""."""
        return {task: holder for each in self for task, holder in each.secrets.items()}

    @cached_property
    def holders(self) -> tuple[str, ...]:
        """The args that hold args which may name secrets."""
        return tuple(sorted({holder for holder in self.secrets.values() if holder}))

    def check(self, name: str, given: Any, permits: Permits) -> None:
        """Raise Invalid unless a built-in task can be run with these args."""
        self.built_in(name).check(given, permits)

    @cache  # noqa: B019  there is one object for a process
    def call(self, name: str) -> Any:
        """Import the function that answers a call of a running task, such as `sources.store`."""
        owner = self.named(name.partition(".")[0])
        module = None if owner is None else owner.module("calls")
        found = None if module is None else module.CALLS.get(name.partition(".")[2])
        if found is None:
            raise Invalid(f"There is no call {name[:100]!r}.")
        return found

    @cache  # noqa: B019  there is one object for a process
    def steps(self, task: str) -> Any:
        """Import the rules of a task whose runs queue steps; None if it is no such task."""
        owner = self.tasks.get(task)
        module = None if owner is None else owner.module("steps")
        return None if module is None else module.STEPS.get(task)

    def engine(self, name: str) -> Any:
        """Import the engine of a feature. Raise InvalidSetting if it, or a module that it needs, is missing."""
        feature = self.named(name)
        if feature is None:
            raise InvalidSetting(f"There is no engine {name}: the feature {name} is missing.")
        feature.require(f"The engine {name}")
        return feature.file("engine")

    @cached_property
    def gate(self) -> Any:
        """Import the file of the gate that outgoing requests pass; None if no feature has one."""
        found = list(self.modules("gate"))
        if len(found) > 1:
            names = " and ".join(module.__package__ or "" for module in found)
            raise InvalidSetting(f"Several features have a gate of outgoing requests: {names}. Use one of them.")
        return found[0] if found else None

    @cached_property
    def statements(self) -> list[Path]:
        """The files of named statements."""
        return [path for each in self for path in sorted(each.folder.glob("*.sql"))]

    @cached_property
    def panels(self) -> dict[str, str]:
        """The templates that pages of jobs and executions include, by task."""
        found = {task: f"panel_{task}.html" for task in self.tasks}
        return {task: name for task, name in found.items() if (self.tasks[task].folder / "templates" / name).is_file()}

    @cached_property
    def removals(self) -> list[Path]:
        """The files of statements that delete rows of removed jobs."""
        return [path for path in self.statements if path.name == "removal.sql"]


def _owners(claims: Mapping[Feature, Sequence[str]], what: str) -> dict[str, Feature]:
    """Return the feature that has each name. Raise InvalidSetting if two claim one."""
    found: dict[str, Feature] = {}
    for feature, names in claims.items():
        for name in names:
            if name in found:
                raise InvalidSetting(
                    f"Two features have a {what} {name}: {found[name].package} and {feature.package}. Use one of them."
                )
            found[name] = feature
    return found


@cache
def our_features() -> Features:
    """Return the features that come with Ostinato."""
    names: Sequence[str] = import_module(OURS).NAMES
    return Features([import_module(f"{OURS}.{name}").FEATURE for name in names])


@cache
def features_of(names: tuple[str, ...]) -> Features:
    """Return our features, and those of other packages with these names. Raise InvalidSetting for one that cannot be
    used."""
    ours = our_features()
    return Features([*ours, *_of_others(names, ours)]) if names else ours


def _of_others(names: Sequence[str], ours: Features) -> Iterator[Feature]:
    from importlib.metadata import entry_points  # takes 40 ms, which most processes need not spend

    installed = entry_points(group=GROUP)
    for name in names:  # all names are compared before anything is imported
        claims = (each for each in installed if each.name == name)
        owners = sorted(f"{each.value} of {each.dist.name if each.dist else '?'}" for each in claims)
        if (known := ours.named(name)) is not None:
            owners.insert(0, f"{known.package} of ostinato")
        if known is not None or len(owners) > 1:
            raise InvalidSetting(f"The feature {name} is there already: {' and '.join(owners)}. Use one of them.")
        if not owners:
            there = ", ".join(sorted({each.name for each in installed})) or "none"
            raise InvalidSetting(
                f"There is no feature {name}: no installed package has an entry point {name} in the group {GROUP} "
                f"(installed: {there}). Install its package, or take it out of OSTINATO_FEATURES."
            )
    for name in names:
        yield _loaded(name, next(each for each in installed if each.name == name))


def _loaded(name: str, entry: Any) -> Feature:
    where = f"The feature {name} ({entry.value})"
    try:
        found = entry.load()
    except Exception as error:
        raise InvalidSetting(f"{where} cannot be loaded: {type(error).__name__}: {error}") from error
    if not isinstance(found, Feature):
        raise InvalidSetting(f"{where} is not an ostinato.feature.Feature, but {type(found).__name__}.")
    if found.name != name:
        raise InvalidSetting(f"{where} has the name {found.name}, which is that of its folder: give both one name.")
    if found.extra or found.needs:
        raise InvalidSetting(f"{where} has extra= or needs=: its package requires what it needs.")
    texts = [path.read_text("utf-8") for path in sorted(found.folder.glob("*.sql"))]
    statements = [statement for text in texts for statement in STATEMENT.findall(text)]
    for what, each in [*(("table", each) for each in found.tables), *(("statement", each) for each in statements)]:
        if not each.startswith(f"{name}_"):
            raise InvalidSetting(f"{where} has a {what} {each}: its name must begin with {name}_.")
    return found
