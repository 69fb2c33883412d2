"""A feature of another package: installed it is not used, named in a setting it works at every door.

The package is tests/own_feature, which docs/guides/own-features.md shows. It is built and installed as any other.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from urllib.error import URLError

import pytest

from tests.docs.pages import ROOT
from tests.extras import Installation
from tests.servers import free_port
from tests.waiting import PATIENCE, eventually

pytestmark = pytest.mark.xdist_group("extras")

PACKAGE = ROOT / "tests" / "own_feature"
ON = {"OSTINATO_FEATURES": "acme_parcels", "OSTINATO_POLL_INTERVAL": "100ms"}
AN_APP = "from ostinato import Ostinato\napp = Ostinato('shop', features=['acme_parcels'])\n"


def install(installation: Installation, package, folder) -> None:
    """Build a wheel of the package, and install it, offline."""
    shutil.copytree(package, folder / "source")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=folder / "source", check=True, capture_output=True)
    wheels = [str(each) for each in folder.glob("*.whl")]
    pip = [sys.executable, "-m", "pip", "--python", str(installation.python), "install", "-q", "--no-index"]
    subprocess.run([*pip, "--no-deps", *wheels], check=True, capture_output=True)


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """An environment with REST, dashboard and command line, and the package of the feature."""
    folder = tmp_path_factory.mktemp("own")
    installation = Installation(folder / "venv", "standard")
    install(installation, PACKAGE, folder)
    return installation


def ask(url, body=None):
    """Ask a server; None if it does not answer yet, or no more."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"} if data else {})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.read().decode()
    except (URLError, ConnectionResetError) as error:
        if isinstance(getattr(error, "reason", error), ConnectionError):
            return None
        raise


def test_it_works_at_every_door(shop, tmp_path):
    """`serve` has three processes here: one runs jobs, one answers HTTP, and the task runs in a child."""
    port = free_port()
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **ON}
    command = [shop.python, "-c", "from ostinato.__main__ import main; main()", "serve", "--port", str(port)]
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(command, cwd=tmp_path, env=env, stdout=log, stderr=log)
    try:
        here = f"http://127.0.0.1:{port}"
        eventually(lambda: server.poll() is not None or ask(f"{here}/healthz"))
        assert server.poll() is None, (tmp_path / "log").read_text()
        made = json.loads(ask(f"{here}/api/v1/jobs", {"task": "send_parcel", "args": {"address": "12 Elm Street"}}))
        found = eventually(lambda: json.loads(ask(f"{here}/api/v1/parcels"))["parcels"])
        assert [each["address"] for each in found] == ["12 Elm Street"]
        assert "/api/v1/parcels" in json.loads(ask(f"{here}/openapi.json"))["paths"]
        page = ask(f"{here}/parcels")
        assert "<li>12 Elm Street</li>" in page
        assert 'href="/parcels"' in page, "it stands in the menu"
        ended = eventually(lambda: [
            each for each in json.loads(ask(f"{here}/api/v1/jobs/{made['id']}/executions"))["executions"]
            if each["status"] == "completed"
        ])  # fmt: skip
        assert ended[0]["result"]["pid"] not in (server.pid, os.getpid())
        for where in ([], ["--server", here]):
            listed = shop.program("parcel", "list", *where, cwd=tmp_path, **ON)
            assert "12 Elm Street" in listed.stdout, listed.stderr
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(PATIENCE)


def test_an_app_may_name_it_and_a_worker_runs_its_task(shop, tmp_path):
    (tmp_path / "shop.py").write_text(
        AN_APP + "if __name__ == '__main__':\n    app.enqueue([app.call('send_parcel', address='1 Oak Lane')])\n"
    )
    assert shop.run("shop.py", cwd=tmp_path).returncode == 0
    worked = shop.program("worker", "--app", "shop:app", "--until-idle", cwd=tmp_path)
    assert worked.returncode == 0, worked.stderr
    assert "1 Oak Lane" in shop.program("parcel", "list", cwd=tmp_path, **ON).stdout
    (tmp_path / "ostinato.toml").write_text('features = ["acme_parcels"]\n')
    assert "1 Oak Lane" in shop.program("parcel", "list", "--json", cwd=tmp_path).stdout


def test_what_is_installed_and_not_named_is_not_even_looked_for(shop, tmp_path):
    program = (
        "import sys\nfrom ostinato import Ostinato\napp = Ostinato()\napp.open()\nlist(app.jobs.list(limit=1))\n"
        "print('importlib.metadata' in sys.modules, [name for name in sys.modules if name.startswith('acme')])\n"
    )
    done = shop.run("-c", program, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("False []\n", "")
    done = shop.program("parcel", "list", cwd=tmp_path)
    assert (done.returncode, done.stderr.partition(".")[0]) == (2, "No such command 'parcel'")


def test_a_database_that_knows_it_warns_a_process_that_lacks_it(shop, tmp_path):
    assert shop.program("db", "upgrade", cwd=tmp_path, **ON).returncode == 0
    worked = shop.program("worker", "--until-idle", cwd=tmp_path)
    assert worked.returncode == 0, worked.stderr
    assert "lacks features that the database has: features=acme_parcels" in worked.stderr
    found = json.loads(shop.program("doctor", "--json", cwd=tmp_path).stdout)
    (missing,) = [each for each in found if each["subject"] == "features"]
    assert missing["state"] == "look"
    assert "OSTINATO_FEATURES" in missing["advice"]
    refused = shop.program("db", "backup", "b.db", cwd=tmp_path)
    assert (refused.returncode, "OSTINATO_FEATURES" in refused.stderr) != (0, False)
    assert "acme_parcels" in refused.stderr
    for command in (("worker", "--until-idle"), ("doctor",), ("db", "backup", "b.db")):
        done = shop.program(*command, cwd=tmp_path, **ON)
        assert "acme_parcels" not in done.stdout + done.stderr, command


WRONG = {
    "there is none": ("acme_parcel", None, "There is no feature acme_parcel: no installed package has an entry point"),
    "ours": ("sources", None, "The feature sources is there already: ostinato.features.sources of ostinato and acme"),
    "twice": (
        "acme_parcels",
        None,
        "there already: acme:FEATURE of acme and acme_parcels:FEATURE of acme-parcels. Use one of them.",
    ),
    "broken": ("acme", "1 / 0", "The feature acme (acme:FEATURE) cannot be loaded: ZeroDivisionError: division by"),
    "another thing": ("acme", "FEATURE = 1", "The feature acme (acme:FEATURE) is not an ostinato.feature.Feature, but"),
    "another name": ("acme", "Feature(package='x.y')", "The feature acme (acme:FEATURE) has the name y, which is that"),
    "a table": ("acme", "Feature(package=__name__, tables=('jobs',))", "has a table jobs: its name must begin with"),
    "needs": ("acme", "Feature(package=__name__, needs=('x',))", "has extra= or needs=: its package requires what it"),
    "a task": (
        "acme",
        "Feature(package=__name__, tasks=('http',))",
        "Two features have a task http: ostinato.features",
    ),
    "a group": ("acme", "Feature(package=__name__, commands={'job': 'Jobs.'})", "has a group of commands job, as Osti"),
    "a statement": ("acme", "Feature(package=__name__)", "has a statement claim: its name must begin with acme_."),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_feature_that_cannot_be_used_stops_the_program_with_a_sentence(shop, tmp_path, case):
    name, text, sentence = WRONG[case]
    entries = {"ours": "sources", "twice": "acme_parcels"}.get(case, "acme")
    (tmp_path / "acme").mkdir()
    value = (text or "").replace("Feature(", "FEATURE = Feature(", 1) if "Feature(" in (text or "") else text or ""
    (tmp_path / "acme" / "__init__.py").write_text(f"from ostinato.feature import Feature\n{value}\n")
    if case == "a statement":
        (tmp_path / "acme" / "rows.sql").write_text("-- name: claim\nSELECT 1\n")
    (tmp_path / "acme-1.dist-info").mkdir()
    (tmp_path / "acme-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1\n")
    (tmp_path / "acme-1.dist-info" / "entry_points.txt").write_text(f"[ostinato.features]\n{entries} = acme:FEATURE\n")
    path = {"PYTHONPATH": str(tmp_path), "OSTINATO_FEATURES": name}
    for command in (("job", "list"), ("worker", "--until-idle")):
        done = shop.program(*command, cwd=tmp_path, **path)
        assert done.returncode == 2
        assert sentence in done.stderr.splitlines()[-1]
        assert "Traceback" not in done.stderr
        assert not (tmp_path / "ostinato.db").exists()
