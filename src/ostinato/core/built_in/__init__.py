"""What the built-in tasks take, and what an administrator must allow: their args types, and none of their work.

Each is a module of this room, of the name of its task, that ends in a `BUILT_IN`. It is imported when somebody asks
for it. The front desk checks args here before anything is kept, the worker once more before it runs them; the work
itself is in `ostinato.tasks`, under the same name.
"""

from ostinato.core.built_in.described import NOTHING_ALLOWED, BuiltIn, Permits, check, described

NAMES: tuple[str, ...] = ("command", "crawl", "fetch", "http", "python", "workflow")

__all__ = ["NAMES", "NOTHING_ALLOWED", "BuiltIn", "Permits", "check", "described"]
