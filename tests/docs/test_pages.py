"""Documentation is true: links lead somewhere, examples run, and what is documented exists."""

import os
import re
import subprocess
import sys

import pytest

import ostinato
from ostinato.app.tasks import UsingOptions
from ostinato.config import SETTINGS, written
from ostinato.config.settings import FOR_TESTS, HANDED_TO_COMMANDS, OF_THE_COMMAND_LINE
from ostinato.feature import our_features
from ostinato.options import JobOptions
from ostinato.program import tree
from ostinato.store.dialect import TABLES, DatabaseKind, Dialect
from ostinato.store.migrate import MIGRATIONS
from ostinato.telemetry.reports import KINDS
from tests import role_table
from tests.docs.pages import LINK, PAGES, ROOT, anchors, blocks, name_of, prose
from tests.waiting import PATIENCE

WITH_CODE = [page for page in PAGES if blocks(page, "python")]
SETTINGS_PAGE, CLI_PAGE, POLICIES_PAGE, EVENTS_PAGE, DATABASE_PAGE = (
    ROOT / "docs" / "reference" / f"{name}.md" for name in ("settings", "cli", "policies", "events", "database")
)


VERBS = {"--server", "--token", "--database", "--json"}  # the flags of every verb, documented once


COMMANDS = """
POST   /jobs                    job add
PATCH  /jobs/{id}               job edit
PUT    /jobs/{id}               job edit
DELETE /jobs/{id}               job delete
POST   /jobs/bulk               job pause
POST   /jobs/{id}/pause         job pause
POST   /jobs/{id}/resume        job resume
POST   /jobs/{id}/cancel        job cancel
POST   /jobs/{id}/retry         job retry
POST   /jobs/{id}/run           job run
POST   /jobs/{id}/restart       job restart
POST   /declined/redeclare      job redeclare
POST   /executions/{id}/cancel  execution cancel
POST   /executions/{id}/release execution release
POST   /preview                 preview
POST   /workers/{id}/drain      workers
POST   /queues/{name}/pause     queue pause
POST   /queues/{name}/resume    queue resume
PATCH  /queues/{name}           queue bound
POST   /templates               template apply
PUT    /templates/{name}        template apply
DELETE /templates/{name}        template delete
POST   /templates/{name}/jobs   template use
POST   /keys                    key create
DELETE /keys/{id}               key revoke
POST   /access/end              access end
POST   /hooks                   hook add
DELETE /hooks/{id}              hook delete
POST   /hooks/{id}/test         hook test
POST   /providers               provider apply
PUT    /providers/{domain}      provider apply
DELETE /providers/{domain}      provider delete
POST   /imports/{name}          import crontab
POST   /imports/{name}/undo     import crontab
POST   /workflows               workflow apply
PUT    /workflows/{id}          workflow apply
DELETE /workflows/{id}          workflow delete
POST   /workflows/{id}/run      workflow run
POST   /triggers/{kind}         workflow trigger
POST   /sources                 source apply
POST   /sources/test            source test
POST   /sources/apply           source apply
PUT    /sources/{name}          source apply
PATCH  /sources/{name}          source apply
DELETE /sources/{name}          source delete
POST   /sources/{name}/run      source run
PUT    /sources/{name}/state    source state set
DELETE /sources/{name}/state    source state reset
"""


# -- links and examples


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_somewhere(page):
    broken = []
    for link in LINK.findall(prose(page)):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_every_page_is_reachable_from_the_readme():
    seen, to_read = set(), [ROOT / "README.md"]
    while to_read:
        page = to_read.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        links = [link.partition("#")[0] for link in LINK.findall(prose(page)) if "://" not in link]
        to_read += [(page.parent / link).resolve() for link in links if link]
    assert [name_of(page) for page in PAGES if page not in seen and "CHANGELOG" not in page.name] == []


@pytest.mark.parametrize("page", WITH_CODE, ids=name_of)
def test_the_python_of_a_page_runs(page, tmp_path):
    """All blocks of a page, one after the other, as its reader would type them."""
    code = "\n\n".join(blocks(page, "python"))
    (tmp_path / "page.py").write_text(code.replace('if __name__ == "__main__":', "if __name__ == 'nobody':"))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OSTINATO_")}
    done = subprocess.run(
        [sys.executable, "page.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=environment,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.system
def test_the_example_of_the_readme_works_from_beginning_to_end(tmp_path):
    (code,) = blocks(ROOT / "README.md", "python")
    (tmp_path / "shop.py").write_text(code)
    with subprocess.Popen(
        [sys.executable, "shop.py"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        said = ""
        while "Job completed successfully" not in said:
            line = process.stdout.readline()
            assert line, said
            said += line
        process.terminate()
        said += process.stdout.read()
    assert process.returncode == 0
    assert "task=send_email" in said
    assert "refresh_prices  every 30 minutes" in said


def test_the_demo_declares_what_it_shows():
    from examples.demo import app

    assert {job.key for job in app.declared} == {
        "heartbeat", "fetch_prices", "build_report", "slow_import", "take_order", "crawl-the-site", "close_the_books",
        "source:books", "source:earthquakes", "source:exchange_rates",
    }  # fmt: skip


# -- settings


def test_every_setting_is_documented_as_it_is():
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| (?:`([^`]*)`|empty) \| (.*) \|$", SETTINGS_PAGE.read_text(), re.M)
    assert rows == [
        (each.name, each.env, written(each.default), f"{each.help} Allowed: {each.kind.allowed}.") for each in SETTINGS
    ]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_page_names_a_variable_that_does_not_exist(page):
    known = {each.env for each in SETTINGS} | OF_THE_COMMAND_LINE | HANDED_TO_COMMANDS | FOR_TESTS
    assert set(re.findall(r"\bOSTINATO_[A-Z_]*[A-Z]\b", page.read_text())) - known == set()


# -- commands


def commands() -> dict[str, set[str]]:
    """Every command, with its flags."""
    from typer.main import get_command

    found: dict[str, set[str]] = {}

    def look(command, words):
        for name, each in getattr(command, "commands", {}).items():
            look(each, [*words, name])
        if not hasattr(command, "commands"):
            found[" ".join(words)] = {flag for each in command.params for flag in each.opts if flag.startswith("-")}

    look(get_command(tree()), ["ostinato"])
    return found


def test_every_public_name_is_in_the_python_reference():
    page = (ROOT / "docs" / "reference" / "python-api.md").read_text()
    assert [name for name in ostinato.__all__ if f"`{name}`" not in page.partition("\n## ")[0]] == []


def test_every_command_of_the_api_has_one_at_the_terminal():
    """A new route that changes something is given a command, and its line here."""
    doors = "/api/v1/schedules"  # of seed 001: the same jobs in other words
    routes = {
        f"{method} {path}"
        for _, method, path in map(str.split, role_table.TABLE.strip().splitlines())
        if method not in ("GET", "HEAD") and path.startswith("/api/v1/") and not path.startswith(doors)
    }
    written = {
        f"{method} /api/v1{path}": command
        for method, path, command in (line.split(maxsplit=2) for line in COMMANDS.strip().splitlines())
    }
    assert set(written) == routes
    assert {command for command in written.values() if f"ostinato {command}" not in commands()} == set()


def test_every_command_is_documented_with_its_flags_and_no_others():
    sections = re.split(r"^## `(ostinato [\w -]+)`$", CLI_PAGE.read_text(), flags=re.M)
    documented = {
        name: set(re.findall(r"`(-{1,2}[a-z-]+)", text))
        for name, text in zip(sections[1::2], sections[2::2], strict=True)
    }
    known = {name: flags - {"--help"} for name, flags in commands().items()}
    assert documented == {name: flags - VERBS if flags >= VERBS else flags for name, flags in known.items()}
    assert set(re.findall(r"^\| `(-[a-z-]+)", sections[0], re.M)) == VERBS


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_page_shows_a_command_that_does_not_exist(page):
    shown = re.findall(r"(?:^\$ |`)(ostinato [a-z]+(?: [a-z][a-z-]*)?)", page.read_text(), re.M)
    known = {" ".join(name.split()[:3]) for name in commands()}  # a group of a group has three words
    assert [each for each in shown if each not in known and " ".join(each.split()[:2]) not in known] == []


# -- policies, events, tables


def test_every_option_of_a_job_is_documented_and_no_other():
    table = POLICIES_PAGE.read_text().partition("## Status")[0]
    rows = re.findall(r"^\| (`[^|]*) \|", table, re.M)
    documented = {name: "†" in row for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert set(documented) == set(JobOptions.__annotations__)
    assert {name for name, in_using in documented.items() if in_using} == set(UsingOptions.__annotations__) - {
        "connection"
    }


def test_every_event_is_documented():
    page = EVENTS_PAGE.read_text()
    hooks, _, rest = page.partition("## The table")
    assert tuple(re.findall(r"^\| `(job:\w+)` \|", hooks, re.M)) == KINDS
    documented = set(re.findall(r"`(\w+\.\w+)`", rest.partition("## Log lines")[0])) - {"app.jobs"}
    source = "\n".join(path.read_text() for path in (ROOT / "src" / "ostinato").rglob("*.py"))
    told = set(
        re.findall(
            r'(?<!Out\()"((?:job|execution|worker|queue|clock|database|result|key|hook|provider|template|access|audit)\.[a-z_]+)"',
            source,
        )
    )
    told |= {"worker.stopped", "worker.lost"} if 'f"worker.{closed_as}"' in source else set()
    assert documented == told - {"job.args"}  # which is a place in a template


def test_every_log_line_that_is_documented_exists():
    lines = re.findall(r"`([A-Z][^`]+)`", EVENTS_PAGE.read_text().partition("## Log lines")[2])
    source = "\n".join(path.read_text() for path in (ROOT / "src" / "ostinato").rglob("*.py"))
    assert [line for line in lines if f'"{line}"' not in source and not line.startswith("OSTINATO")] == []


def test_every_table_is_documented_and_no_other():
    features = our_features()
    dialect = Dialect(DatabaseKind.SQLITE, tables=TABLES | features.tables)
    folders = [MIGRATIONS, *features.folders("migrations").values()]
    files = [file.read_text() for folder in folders for file in sorted(folder.glob("*.sql"))]
    script = "\n".join(str(line) for text in files for line in dialect.script(text))
    made = {"meta"} | set(re.findall(r"CREATE (?:TABLE|VIEW) ostinato_(\w+)", script))
    assert set(re.findall(r"^\| `(\w+)` \|", DATABASE_PAGE.read_text(), re.M)) == made


def test_every_guarantee_is_on_the_page():
    page = (ROOT / "docs" / "explanation" / "guarantees.md").read_text()
    assert re.findall(r"^\| (G\d+) \|", page, re.M) == [f"G{n}" for n in range(1, 18)]
