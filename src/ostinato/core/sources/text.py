"""Definitions as text: YAML or JSON (which is YAML), one or several in a file."""

from typing import Any

from ostinato.core.errors import Invalid


def definitions_of(text: str, what: str) -> list[Any]:
    """Every definition of a text: several documents, a list, or `sources:` with a list. `what` names the text."""
    import yaml

    class Loader(yaml.SafeLoader):
        """Dates stay the text that they are, and no name stands twice in one object."""

    def mapping(loader: Loader, node: yaml.MappingNode) -> dict[Any, Any]:
        names = [loader.construct_object(key) for key, _ in node.value]
        for name in names:
            if names.count(name) > 1:
                raise Invalid(f"{what}, line {node.start_mark.line + 1}: {name} stands there twice.")
        return loader.construct_mapping(node, deep=True)

    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:timestamp"]
        for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    Loader.add_constructor("tag:yaml.org,2002:map", mapping)
    try:
        documents = [each for each in yaml.load_all(text, Loader) if each is not None]
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise Invalid(f"{what}{line}: {error.problem or 'cannot be read'}.") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise Invalid(f"{what} cannot be read as YAML: {' '.join(str(error).split())[:200]}") from None
    return [definition for document in documents for definition in _within(document)]


def _within(document: Any) -> list[Any]:
    match document:
        case list():
            return document
        case {"sources": list(found), **rest} if not rest:
            return found
        case _:
            return [document]
