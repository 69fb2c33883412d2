"""Arguments of the built-in tasks and the permissions they need; their work is elsewhere.

Each is a module of this room, named after its task, that ends in a `BUILT_IN`. It is imported on first use. The front
desk checks args here before it stores them, the worker once more before it runs them. The work itself is in
`ostinato.tasks`, under the same name.
"""

from ostinato.core.builtin.described import NOTHING_ALLOWED, BuiltIn, Permits, check, described

NAMES: tuple[str, ...] = ("command", "crawl", "fetch", "http", "python", "workflow")

__all__ = ["NAMES", "NOTHING_ALLOWED", "BuiltIn", "Permits", "check", "described"]
