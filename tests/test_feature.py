"""The value that registers a feature, and what the kernel finds by it."""

import ast
import sys

import pytest

from ostinato.core.errors import InvalidSetting
from ostinato.feature import Feature, Features, our_features


def a_feature(tmp_path, monkeypatch, name, **fields):
    """Return a feature whose folder is a package in `tmp_path`."""
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    __import__(name)
    monkeypatch.delitem(sys.modules, name, raising=False)
    __import__(name)
    return Feature(package=name, **fields)


@pytest.mark.parametrize(
    ("claim", "what"),
    [({"tables": ("parcels",)}, "table"), ({"tasks": ("send",)}, "task"), ({"commands": {"send": "Send."}}, "group")],
)
def test_a_name_that_two_features_claim_is_refused_with_both(tmp_path, monkeypatch, claim, what):
    one, other = (a_feature(tmp_path, monkeypatch, name, **claim) for name in ("acme_one", "acme_other"))
    with pytest.raises(InvalidSetting, match=f"{what} .*acme_one and acme_other"):
        Features([one, other])


def test_files_are_found_by_their_names_and_may_be_missing(tmp_path, monkeypatch):
    feature = a_feature(tmp_path, monkeypatch, "acme_files")
    (tmp_path / "acme_files" / "endpoints.py").write_text("router = 1")
    (tmp_path / "acme_files" / "rows.sql").write_text("")
    features = Features([feature])
    assert [module.router for module in features.modules("endpoints")] == [1]
    assert list(features.modules("pages")) == []
    assert [path.name for path in features.statements] == ["rows.sql"]


def test_a_task_without_its_libraries_is_left_to_other_workers(tmp_path, monkeypatch):
    feature = a_feature(tmp_path, monkeypatch, "acme_needs", tasks=("send",), needs=("there_is_no_such_library",))
    features = Features([feature])
    assert (set(features.tasks), set(features.runnable)) == ({"send"}, set())


def test_a_feature_with_tasks_and_no_file_for_them_is_refused(tmp_path, monkeypatch):
    features = Features([a_feature(tmp_path, monkeypatch, "acme_empty", tasks=("send",))])
    with pytest.raises(InvalidSetting, match=r"acme_empty has tasks, but no task\.py"):
        features.task("send")


def test_the_value_of_a_feature_imports_nothing_but_the_module_of_features():
    for feature in our_features():
        text = (feature.folder / "__init__.py").read_text()
        assert [line for line in text.splitlines() if line.startswith(("import", "from"))] in (
            ["from typing import Final", "from ostinato.feature import Feature"],
            ["from ostinato.feature import Feature"],
        ), feature.name


@pytest.mark.parametrize("feature", list(our_features()), ids=lambda feature: feature.name)
def test_a_feature_imports_only_the_features_that_it_declares_to_use(feature):
    """Removing a folder and its line breaks only the features that declare to use it."""
    used = {name.split(".")[2] for file in feature.folder.rglob("*.py") for name in imported_features(file)}
    assert used - {feature.name} <= set(feature.uses)


def imported_features(file):
    for node in ast.walk(ast.parse(file.read_text())):
        names = [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
        names += [each.name for each in node.names] if isinstance(node, ast.Import) else []
        yield from (name for name in names if name.startswith("ostinato.features."))
