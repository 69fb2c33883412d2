"""The package as it is published: what is in it, its README on an index, and that a job runs with the wheel alone."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.message import Message
from pathlib import Path

import pytest
import yaml

from tests.docs.pages import ROOT
from tests.release import NO_ADDRESS, extras, metadata, obstacles
from tests.waiting import PATIENCE

SCRIPTS = Path(sys.executable).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
RELEASE = ROOT / ".github" / "workflows" / "release.yml"
FORMS = ROOT / ".github" / "ISSUE_TEMPLATE"


def run(*command: object, **environment: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        list(map(str, command)),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=os.environ | environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """The sdist, and the wheel that is built from it, without a network."""
    folder = tmp_path_factory.mktemp("dist")
    run(SCRIPTS / "uv", "build", "-q", "--offline", "--no-build-isolation", "--python", sys.executable, "-o", folder)
    return folder


@pytest.fixture(scope="module")
def wheel(dist):
    (found,) = dist.glob("*.whl")
    return found


def files_of(folder: str) -> set[str]:
    listed = run("git", "ls-files", folder).stdout.split()
    return {name for name in listed if (ROOT / name).is_file()}


pytestmark = pytest.mark.xdist_group("package")
in_a_repository = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="compares with the files of the repository")


@in_a_repository
def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    own = {name for name in names if not name.partition("/")[0].endswith(".dist-info")}
    assert own == {name.removeprefix("src/") for name in files_of("src/ostinato")}


@in_a_repository
def test_the_sdist_holds_documentation_tests_and_what_they_need(dist):
    (archive,) = dist.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    folders = ("docs", "tests", "deploy", "examples", "benchmarks", "requirements", ".github", ".ci")
    wanted = set[str]().union(*map(files_of, (*folders, "*.md", "Makefile")))
    assert wanted - names == set()


def test_the_metadata_passes_the_check_of_the_index(dist):
    run(sys.executable, "-m", "twine", "check", "--strict", *dist.glob("ostinato-*"))


def test_links_and_pictures_of_the_readme_are_absolute(wheel):
    readme = metadata(wheel).get_payload()
    links = re.findall(r"\]\(([^)\s]+)\)", readme)
    assert len(links) > 40
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    pictures = re.findall(r"!\[[^\]]*\]\(([^)\s]+)\)", readme)
    assert [picture for picture in pictures if not picture.endswith("?raw=true")] == []
    assert f"blob/v{PROJECT['version']}/docs/tutorial.md" in readme


def test_a_job_runs_with_the_wheel(wheel, tmp_path):
    run(SCRIPTS / "uv", "pip", "install", "-q", "--offline", "--no-deps", "--target", tmp_path, wheel)
    place = "import ostinato; print(ostinato.__file__)"
    assert run(sys.executable, "-c", place, PYTHONPATH=str(tmp_path)).stdout.startswith(str(tmp_path))
    run(sys.executable, ROOT / ".github" / "smoke.py", PYTHONPATH=str(tmp_path))


# -- the release workflow


def test_the_workflow_and_the_issue_forms_are_valid():
    check = (sys.executable, "-m", "check_jsonschema", "--builtin-schema")
    run(*check, "vendor.github-workflows", RELEASE)
    run(*check, "custom.github-workflows-require-timeout", RELEASE)
    run(*check, "vendor.github-issue-config", FORMS / "config.yml")
    run(*check, "vendor.github-issue-forms", *(form for form in FORMS.iterdir() if form.name != "config.yml"))


def test_the_wheel_is_tested_on_each_supported_python_with_each_extra():
    named = {each.rpartition(" ")[2] for each in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", each)}
    matrix = yaml.safe_load(RELEASE.read_text())["jobs"]["wheel"]["strategy"]["matrix"]
    assert set(matrix["python"]) == named
    assert set(re.search(r"^PYTHONS = (.+)$", (ROOT / "Makefile").read_text(), re.M)[1].split()) == named
    assert extras()[0] == ""
    assert len(extras()) == len(PROJECT["optional-dependencies"]) + 1


def wheel_of(version: str, readme: str) -> Message:
    found = Message()
    found["Version"] = version
    found.set_payload(readme)
    return found


def test_a_release_needs_its_tag_its_changelog_and_an_address():
    good = wheel_of("0.2.0", "[docs](https://example.org/blob/v0.2.0/docs/index.md)")
    assert obstacles("v0.2.0", good, "## [0.2.0] - 2026-12-01\n") == []
    (wrong_tag,) = obstacles("v0.3.0", good, "## [0.2.0] - 2026-12-01\n")
    assert wrong_tag.startswith("The tag is v0.3.0, and the package is 0.2.0")
    (untold,) = obstacles("v0.2.0", good, "## [Unreleased]\n")
    assert "no section `## [0.2.0] - DATE`" in untold
    (homeless,) = obstacles("v0.2.0", wheel_of("0.2.0", f"[docs]({NO_ADDRESS}blob)"), "## [0.2.0] - 2026-12-01\n")
    assert "set the address of the repository" in homeless
