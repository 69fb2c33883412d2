"""The rooms of the source and what each imports; `make map` writes that into the page on architecture."""

import ast
import re

from tests.docs.pages import ROOT

SOURCE = ROOT / "src" / "ostinato"
ARCHITECTURE = ROOT / "docs" / "explanation" / "architecture.md"
ROOM = re.compile(r"^\| `(\w+)` \| .+ \| (.+) \| (.+) \|$", re.M)


def rooms() -> set[str]:
    packages = {file.parent.name for file in SOURCE.glob("*/__init__.py")}
    return packages | {file.stem for file in SOURCE.glob("*.py")} - {"__init__"}


def imports_of(room: str) -> set[str]:
    """Rooms that a room imports, wherever in its files, and also for types only."""
    single = SOURCE / f"{room}.py"
    trees = [ast.parse(file.read_text()) for file in ([single] if single.exists() else (SOURCE / room).rglob("*.py"))]
    modules: set[str] = set()
    for node in (node for tree in trees for node in ast.walk(tree)):
        match node:
            case ast.ImportFrom(module="ostinato"):
                modules |= {f"ostinato.{each.name}" for each in node.names}
            case ast.ImportFrom(module=str(module)):
                modules.add(module)
            case ast.Import():
                modules |= {each.name for each in node.names}
    parts = [module.split(".") for module in modules]
    return {each[1] for each in parts if each[0] == "ostinato" and each[1:]} & rooms() - {room}


def with_imports(page: str) -> str:
    """Return the page with the imports of each room as they are."""

    def line(found: re.Match[str]) -> str:
        names = ", ".join(f"`{each}`" for each in sorted(imports_of(found[1]) - {"core"})) or "–"
        return f"{page[found.start() : found.start(2)]}{names}{page[found.end(2) : found.end()]}"

    return ROOM.sub(line, page)


if __name__ == "__main__":
    ARCHITECTURE.write_text(with_imports(ARCHITECTURE.read_text()))
