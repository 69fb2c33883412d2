"""Arguments of the built-in tasks and the permissions they need.

Each task has a module of its name here, which ends in a `BUILT_IN` and is imported on first use. The service checks
args with it before it stores them, and the worker once more before it runs them. The code of the task is in
`ostinato.tasks`, under the same name.
"""

from ostinato.core.builtin.described import NOTHING_ALLOWED, BuiltIn, Permits, check, described

NAMES: tuple[str, ...] = ("command", "crawl", "fetch", "http", "python", "workflow")

__all__ = ["NAMES", "NOTHING_ALLOWED", "BuiltIn", "Permits", "check", "described"]
