"""The Python reference: signatures and docstrings of public names; `make reference` writes them into their pages.

A page marks what is written for it, up to `<!-- end -->`. The text between the marks is written by hand, and stays.

    <!-- app = Ostinato() -->                         a class; (): readers make it themselves
    <!-- simulate = ostinato.testing.simulate -->     a function, or a module
    <!-- app.task -->                                 a member of the class above; missing ones are added
"""

import ast
import enum
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, get_overloads

from tests.docs.pages import ROOT
from tests.docs.rooms import SOURCE

PAGES = ROOT / "docs" / "reference" / "python"
MARK = re.compile(r"^<!-- ([\w.]+(?: = [\w.]+(?:\(\))?)?) -->\n.*?^<!-- end -->\n", re.M | re.S)
WIDTH = 92  # of a signature in one line

NOT_PUBLIC = {  # members for other rooms of Ostinato
    "Ostinato": {"apply_workflows", "declared", "engine", "in_thread", "now", "parts", "put"},
    "AppTask": {"arguments", "call", "check", "check_types", "limited", "open_to_operators", "wants_context", "where"},
    "AppWorkflow": {"apply"},
    "Context": {
        "become_current", "call", "count_items", "crawl_turn", "flush_progress", "greatest", "has_stored",
        "keep_printed", "keep_record", "last_progress", "open_table", "pack_rows", "pass_on_call",
        "pass_on_checkpoint", "pass_on_crawl_turn", "permits", "quiet", "store_page", "take_over",
    },
    "JobService": {
        "check", "create", "create_copies", "foreseen", "last_runs", "make", "resolve", "run_again", "secrets",
        "with_reasons",
    },
    "Service": {"events", "now", "part", "ungranted", "unready", "warnings"},
    "Simulation": {"close", "worker_rows"},
}  # fmt: skip


def renewed(page: str) -> str:
    """Return the page with its marked parts as the source has them; refuse text about members that are gone."""
    head, *rest = MARK.split(page)
    texts = dict(zip(rest[::2], rest[1::2], strict=True))
    written = [head]
    for mark in [mark for mark in texts if " = " in mark]:
        name, path = mark.split(" = ")
        found = found_at(path.removesuffix("()"))
        written += [_marked(mark, described(name, found, made=path.endswith("()"))), _prose(texts.pop(mark))]
        for member in members(found):
            called = f"{name}.{member}"
            written += [_marked(called, described_member(called, found, member)), _prose(texts.pop(called, ""))]
    if texts:
        raise SystemExit(f"These members do not exist any more, or are not public: {', '.join(texts)}.")
    return "".join(written).rstrip() + "\n"


def found_at(path: str) -> Any:
    """Find a class by its name, which it shares with no other; a function by its path; a module by its path."""
    module, _, name = path.rpartition(".")
    if not module:
        (module,) = _modules()[name]
        return getattr(import_module(module), name)
    found = getattr(import_module(module), name, None)
    return import_module(path) if found is None else found


@cache
def _modules() -> dict[str, list[str]]:
    """Return the modules that define each class."""
    found: dict[str, list[str]] = {}
    for file in sorted(SOURCE.rglob("*.py")):
        for name in re.findall(r"^class (\w+)", file.read_text(), re.M):
            found.setdefault(name, []).append(".".join(file.relative_to(SOURCE.parent).with_suffix("").parts))
    return found


def _marked(mark: str, text: str) -> str:
    return f"<!-- {mark} -->\n\n{text}\n\n<!-- end -->\n"


def _prose(text: str) -> str:
    return f"\n{text.strip()}\n\n" if text.strip() else "\n"


# -- members


def members(found: Any) -> list[str]:
    """List the public methods and properties of a class, its own first; a value shows them in its one block."""
    if not inspect.isclass(found) or is_value(found) or issubclass(found, BaseException):
        return []
    ours = [each for each in found.__mro__ if each.__module__.startswith("ostinato.")]
    names = dict.fromkeys(name for each in ours for name, value in vars(each).items() if is_member(name, value))
    return [name for name in names if name not in NOT_PUBLIC.get(found.__name__, ())]


def is_member(name: str, value: object) -> bool:
    kinds = property | cached_property | classmethod | staticmethod
    return not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, kinds))


def is_value(found: type) -> bool:
    """Return True for a class whose instances are read field by field."""
    typed = issubclass(found, dict | tuple | enum.Enum)
    return typed or hasattr(found, "__dataclass_fields__") or hasattr(found, "__total__")


# -- what is written


def described(name: str, found: Any, *, made: bool) -> str:
    """Describe a module, a function, or a class without its members."""
    if isinstance(found, ModuleType):
        return _code("text", inspect.getdoc(found) or "")
    if not inspect.isclass(found):
        return "\n\n".join([f"## {name}", _code("py", "\n".join(signatures(name, found))), documented(found)])
    parts = [f"## {found.__name__}"]
    if is_value(found):
        parts.append(_code("py", "\n".join([class_line(found), *fields(found), *read_only(found)])))
    elif issubclass(found, BaseException):
        parts.append(_code("py", class_line(found).removesuffix(":")))
    if made and not is_value(found):
        parts.append(_code("py", "\n".join(signatures(found.__name__, found.__init__))))
    parts.append(documented(found))
    if made and not is_value(found):
        parts.append(documented(found.__init__))
    return "\n\n".join(part for part in parts if part)


def described_member(called: str, found: type, name: str) -> str:
    value = inspect.getattr_static(found, name)
    if isinstance(value, property | cached_property):
        function = value.fget if isinstance(value, property) else value.func
        lines = [f"{called}: {_returned(_parsed(function))}"]
    else:
        function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        lines = signatures(called, function)
    return "\n\n".join(part for part in [f"### {called}", _code("py", "\n".join(lines)), documented(function)] if part)


def documented(found: Any) -> str:
    """Return the docstring that the source has; classes inherit none, and the generated one of a dataclass is none."""
    own = vars(found).get("__doc__") if inspect.isclass(found) else found.__doc__
    text = inspect.cleandoc(own or "")
    return "" if inspect.isclass(found) and text.startswith(f"{found.__name__}(") else text


def _code(language: str, text: str) -> str:
    return f"```{language}\n{text}\n```"


# -- signatures, from the source: annotations as they are written there


def signatures(called: str, function: Callable[..., Any]) -> list[str]:
    """Return the signature of a function, as a call; of an overloaded one, all of them."""
    return [_signature(called, _parsed(each)) for each in get_overloads(function) or [function]]


def _parsed(found: Any) -> Any:
    return ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(found)))).body[0]


def _signature(called: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    decorators = {ast.unparse(each) for each in node.decorator_list}
    before = "async with " if "asynccontextmanager" in decorators else "with " if "contextmanager" in decorators else ""
    waits = "await " if isinstance(node, ast.AsyncFunctionDef) and not before else ""
    given = [each for each in _parameters(node.args) if each not in ("self", "cls")]
    returned = "" if node.name == "__init__" else f" -> {_returned(node)}"
    line = f"{before}{waits}{called}({', '.join(given)}){returned}"
    if len(line) <= WIDTH:
        return line
    listed = "".join(f"    {each},\n" for each in given)
    return f"{before}{waits}{called}(\n{listed}){returned}"


def _parameters(args: ast.arguments) -> Iterator[str]:
    plain = args.posonlyargs + args.args
    defaults = [None] * (len(plain) - len(args.defaults)) + args.defaults
    for position, (arg, default) in enumerate(zip(plain, defaults, strict=True), start=1):
        yield _parameter(arg, default)
        if position == len(args.posonlyargs) and [each.arg for each in plain[:position]] != ["self"]:
            yield "/"
    if args.vararg:
        yield f"*{_parameter(args.vararg)}"
    elif args.kwonlyargs:
        yield "*"
    for arg, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        yield _parameter(arg, default)
    if args.kwarg:
        yield f"**{_parameter(args.kwarg)}"


def _parameter(arg: ast.arg, default: ast.expr | None = None) -> str:
    name = f"{arg.arg}: {_type(arg.annotation)}" if arg.annotation else arg.arg
    return name if default is None else f"{name}{' = ' if arg.annotation else '='}{_text(default)}"


def _returned(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    return _type(node.returns) if node.returns else "Any"


class _Unquoted(ast.NodeTransformer):
    """Types written as text, as the types they name."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        return node if ast.unparse(node.value) == "Literal" else self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.parse(node.value, mode="eval").body if isinstance(node.value, str) else node


def _type(annotation: ast.expr) -> str:
    return _text(_Unquoted().visit(annotation))


def _text(node: ast.AST) -> str:
    """Write an expression; quotes as everywhere else here."""
    text = ast.unparse(node)
    return re.sub(r"'([^'\"\\]*)'", r'"\1"', text)


# -- values: dataclasses, typed dictionaries, enumerations


def class_line(found: type) -> str:
    bases = [_text(base) for base in _parsed(found).bases]
    total = [] if getattr(found, "__total__", True) else ["total=False"]
    return f"class {found.__name__}({', '.join(bases + total)}):" if bases or total else f"class {found.__name__}:"


def fields(found: type) -> Iterator[str]:
    """Yield the fields of a class as its source has them, with their comments."""
    source = textwrap.dedent(inspect.getsource(found))
    lines, (node,) = source.splitlines(), ast.parse(source).body
    for each in node.body:
        comment = lines[each.end_lineno - 1].partition("  # ")[2]
        after = f"  # {comment}" if comment and not comment.startswith("type:") else ""
        match each:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=type_, value=value) if not name.startswith("_"):
                yield f"    {name}: {_type(type_)}{_default(value)}{after}"
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if not name.startswith("_"):
                yield f"    {name}{_default(value)}{after}"


def _default(value: ast.expr | None) -> str:
    match value:
        case None:
            return ""
        case ast.Call(func=ast.Name(id="worded"), args=[default, *_]) | ast.Tuple(elts=[default, *_]):
            return f" = {_text(default)}"
        case _:
            return f" = {_text(value)}"


def read_only(found: type) -> Iterator[str]:
    """Yield the properties of a value."""
    for name, value in vars(found).items():
        if isinstance(value, property) and not name.startswith("_"):
            comment = (documented(value.fget).splitlines() or [""])[0]
            yield f"    {name}: {_returned(_parsed(value.fget))}" + (f"  # {comment}" if comment else "")


def pages() -> list[Path]:
    return sorted(PAGES.glob("*.md"))


if __name__ == "__main__":
    for page in pages():
        page.write_text(renewed(page.read_text()))
