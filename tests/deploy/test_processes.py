"""The commands of deploy/ as real processes, with the environment that stands there, on a real PostgreSQL.

Only ports and the place of the program differ. The image is a virtualenv that the RUN line of the Dockerfile fills with
the wheel; its other packages are those of the tests, since the tests have no network.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from ostinato import Ostinato
from ostinato.core.access import Role
from tests.deploy.recipes import (
    DEPLOY,
    Recipe,
    compose,
    instructions,
    of_compose,
    of_container,
    of_image,
    of_unit,
    pod_of,
)
from tests.docs.pages import ROOT
from tests.extras import Installation
from tests.servers import free_port
from tests.waiting import PATIENCE, eventually

pytestmark = [pytest.mark.system, pytest.mark.xdist_group("deploy")]

HOLDS = """

@app.task
def holds(path: str) -> str:
    import os
    import time

    open(f"{path}.started", "w").close()
    while not os.path.exists(path):
        time.sleep(0.05)  # in another process
    return "done"
"""
POD = "10.1.2.3"  # the kubelet asks by the address of the pod


class Image:
    """The file system that the Dockerfile makes: its packages, and its folder with the app."""

    def __init__(self, folder: Path) -> None:
        self.installed = Installation(folder / "venv", "standard", "postgres")
        (self.installed.site / "ostinato.pth").unlink()  # the RUN line installs the library
        self.bin = self.installed.python.parent
        self.app = folder / "app"
        self.app.mkdir()
        for line in instructions("COPY"):
            *names, _ = line.split()
            for name in names:
                (self.app / name).write_bytes((DEPLOY / name).read_bytes())
        self._wheel(folder / "dist")
        for command in instructions("RUN"):
            self._run(command, PIP_REQUIRE_VIRTUALENV="1", PIP_NO_INDEX="1", PIP_FIND_LINKS=str(folder / "dist"))

    def _wheel(self, folder: Path) -> None:
        uv = (sys.executable, "-m", "uv", "build", "-q", "--wheel", "--offline", "--no-build-isolation")
        subprocess.run([*uv, "--python", sys.executable, "-o", folder, ROOT], check=True, timeout=PATIENCE)
        self._run("python -m ensurepip --default-pip")

    def _run(self, command: str, **environment: str) -> None:
        given = {"PATH": f"{self.bin}:/usr/bin:/bin", "HOME": str(self.app)} | environment
        done = subprocess.run(
            ["/bin/sh", "-c", command], cwd=self.app, env=given, capture_output=True, text=True, timeout=PATIENCE
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def argv(self, command: list[str]) -> list[str]:
        """The command, with its program in this image."""
        return [str(self.bin / Path(command[0]).name), *command[1:]]


class Started:
    """A process of a recipe, on ports of its own."""

    def __init__(self, recipe: Recipe, image: Image, log: Path) -> None:
        self.ports = {port: free_port() for port in ("8060", "8061")}
        self.recipe, self._image, self._log = recipe.with_ports(self.ports), image, log
        self._environment = {"PATH": f"{image.bin}:/usr/bin:/bin"} | self.recipe.environment
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                image.argv(self.recipe.argv),
                cwd=image.app,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    @property
    def said(self) -> str:
        return self._log.read_text()

    def is_healthy(self) -> bool:
        """Run the command of its probe."""
        assert self.process.poll() is None, self.said
        command = self._image.argv(self.recipe.probe)
        done = subprocess.run(command, cwd=self._image.app, env=self._environment, capture_output=True)
        return done.returncode == 0

    def status(self, path: str, port: str, **headers: str) -> int:
        """Ask over HTTP as a kubelet does; 0 if nobody answers."""
        assert self.process.poll() is None, self.said
        asked = urllib.request.Request(f"http://127.0.0.1:{self.ports[port]}{path}", headers=headers)
        asked.add_header("Host", f"{POD}:{port}")
        try:
            with urllib.request.urlopen(asked, timeout=PATIENCE) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            with error:
                return error.code
        except OSError:
            return 0

    def exit_code(self) -> int:
        return self.process.wait(PATIENCE)


@contextmanager
def started(recipe: Recipe, image: Image, folder: Path) -> Iterator[Started]:
    with ExitStack() as at_the_end:
        found = Started(recipe, image, folder / f"{len(list(folder.iterdir()))}.log")
        at_the_end.callback(found.process.wait)
        at_the_end.callback(found.process.kill)
        yield found


@pytest.fixture(scope="module")
def image(tmp_path_factory) -> Image:
    found = Image(tmp_path_factory.mktemp("image"))
    (found.app / "shop.py").write_text((DEPLOY / "shop.py").read_text() + HOLDS)
    return found


def recipe_of(kind: str, name: str, url: str) -> Recipe:
    """The recipe for `serve` or `worker`, with this database in the place of the one that stands there."""
    match kind:
        case "compose":
            found = of_compose(name, POSTGRES_PASSWORD="p", OSTINATO_AUTH_SECRET="s" * 32)
            assert found.environment["OSTINATO_DATABASE_URL"] == "postgresql://shop:p@postgres/shop"
        case "systemd":
            found = of_unit({"serve": "ostinato-serve.service", "worker": "ostinato-worker@.service"}[name])
            assert found.environment["OSTINATO_DATABASE_URL"].startswith("sqlite:////var/lib/ostinato/")
        case _:
            pod = pod_of(f"ostinato-{name}")
            (container,) = pod["containers"]
            found = of_container(pod, container, {"database-url": url, "auth-secret": "s" * 32})
    return replace(found, environment=found.environment | {"OSTINATO_DATABASE_URL": url})


def upgrade(image: Image, command: list[str], environment: dict[str, str]) -> None:
    done = subprocess.run(image.argv(command), cwd=image.app, env=environment, capture_output=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def shop(image, empty_postgres_url) -> Iterator[Ostinato]:
    """A client of the database, which the command of Compose has made."""
    assert compose()["services"]["upgrade"]["command"] == pod_of("ostinato-worker")["initContainers"][0]["command"]
    upgrade(image, compose()["services"]["upgrade"]["command"], {"OSTINATO_DATABASE_URL": empty_postgres_url})
    app = Ostinato("shop", database_url=empty_postgres_url)
    app.register("holds", lambda path: "")
    yield app
    app.close()


@contextmanager
def a_run_in_progress(shop: Ostinato, folder: Path) -> Iterator[tuple[object, Path]]:
    gate = folder / "gate"
    (handle,) = shop.enqueue([shop.call("holds", path=str(gate))])
    eventually((folder / "gate.started").exists)
    try:
        yield handle, gate
    finally:
        gate.touch()


def test_the_image_has_the_library_of_the_wheel_and_its_program_works(image):
    place = image.installed.run("-c", "import ostinato; print(ostinato.__file__)", cwd=image.app)
    assert place.stdout.startswith(str(image.installed.site))
    done = subprocess.run([image.bin / "ostinato", "--version"], capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stdout.split()[0]) == (0, "ostinato")


@pytest.mark.parametrize("kind", ["compose", "systemd", "kubernetes"])
def test_a_worker_becomes_ready_and_finishes_its_run_at_sigterm(kind, image, shop, empty_postgres_url, tmp_path):
    with started(recipe_of(kind, "worker", empty_postgres_url), image, tmp_path) as worker:
        if kind == "kubernetes":
            eventually(lambda: worker.status("/readyz", "8061") == 200)
            assert worker.status("/livez", "8061") == 200
            assert worker.status("/metrics", "8061") == 401  # beyond this host it needs a credential
        else:
            eventually(worker.is_healthy)
        with a_run_in_progress(shop, tmp_path) as (handle, gate):
            worker.process.terminate()
            eventually(lambda: "Stopping" in worker.said)
            gate.touch()
            assert worker.exit_code() == 0
        assert handle.wait(PATIENCE).result == "done"
        (row,) = shop.scheduler.workers()
        assert row.closed_as == "stopped"


@pytest.mark.parametrize("kind", ["compose", "systemd", "kubernetes"])
def test_serve_answers_and_runs_no_jobs(kind, image, shop, empty_postgres_url, tmp_path):
    key = shop.scheduler.keys.create("tests", Role.VIEWER, by="tests").text
    (handle,) = shop.enqueue([shop.call("holds", path=str(tmp_path / "gate"))])
    with started(recipe_of(kind, "serve", empty_postgres_url), image, tmp_path) as serve:
        eventually(lambda: serve.status("/readyz", "8060") == 200)
        assert serve.is_healthy() if kind != "kubernetes" else serve.status("/healthz", "8060") == 200
        if kind == "systemd":  # without auth, for this host alone
            assert "127.0.0.1" in serve.said
        else:
            assert serve.status("/api/v1/jobs", "8060") == 401
            assert serve.status("/api/v1/jobs", "8060", authorization=f"Bearer {key}") == 200
        assert shop.jobs.get("refresh_prices").status == "scheduled"  # it declares the jobs of the app
        serve.process.terminate()
        assert serve.exit_code() == 0
    assert handle.status == "pending"


def test_the_units_share_a_file_on_one_machine(image, tmp_path):
    url = f"sqlite:///{tmp_path}/shop.db"
    with started(recipe_of("systemd", "serve", url), image, tmp_path) as serve:
        eventually(serve.is_healthy)
        with started(recipe_of("systemd", "worker", url), image, tmp_path) as worker:
            eventually(worker.is_healthy)
            app = Ostinato("shop", database_url=url)
            app.register("holds", lambda path: "")
            (tmp_path / "open").touch()
            (handle,) = app.enqueue([app.call("holds", path=str(tmp_path / "open"))])
            assert handle.wait(PATIENCE).result == "done"
            app.close()
            for each in (worker, serve):
                each.process.terminate()
                assert each.exit_code() == 0


def test_a_worker_without_its_database_is_live_and_not_ready(image, tmp_path):
    """Else an outage of the database would restart all workers."""
    nowhere = f"postgresql://shop@127.0.0.1:{free_port()}/shop"
    with started(recipe_of("kubernetes", "worker", nowhere), image, tmp_path) as worker:
        eventually(lambda: worker.status("/livez", "8061") == 200)
        assert worker.status("/readyz", "8061") == 503
        worker.process.terminate()
        assert worker.exit_code() == 0


def test_the_health_check_of_the_image_knows_the_port_of_its_worker(image, shop, empty_postgres_url, tmp_path):
    environment = of_image().environment | {"OSTINATO_DATABASE_URL": empty_postgres_url}
    with started(replace(of_image(), environment=environment), image, tmp_path) as worker:
        eventually(worker.is_healthy)
        assert all(json.loads(line) for line in worker.said.splitlines() if line.startswith("{"))
        worker.process.terminate()
        assert worker.exit_code() == 0


def test_many_upgrades_at_once_do_no_harm(image, empty_postgres_url):
    """The init container of each pod upgrades."""
    environment = os.environ | {"OSTINATO_DATABASE_URL": empty_postgres_url}
    command = image.argv(["ostinato", "db", "upgrade"])
    running = [subprocess.Popen(command, cwd=image.app, env=environment, stdout=subprocess.DEVNULL) for _ in range(3)]
    assert [each.wait(PATIENCE) for each in running] == [0, 0, 0]
