"""The commands of deploy/, with their environment, as Docker, Compose, systemd and Kubernetes would start them."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.docs.pages import ROOT

DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
MANIFESTS = ("settings.yaml", "serve.yaml", "worker.yaml")
VARIABLE = re.compile(r"\$\{(\w+):\?\}")


@dataclass(frozen=True)
class Recipe:
    """A process: its command, its environment, the seconds that it has to stop, and the commands of its probes."""

    argv: list[str]
    environment: dict[str, str]
    seconds_to_stop: float
    probe: list[str] = field(default_factory=list)

    def with_ports(self, ports: Mapping[str, int]) -> Recipe:
        """The same, with other ports in the place of 8060 and 8061."""

        def moved(text: str) -> str:
            for old, new in ports.items():
                text = re.sub(rf"\b{old}\b", str(new), text)
            return text

        environment = {name: moved(value) for name, value in self.environment.items()}
        return Recipe([*map(moved, self.argv)], environment, self.seconds_to_stop, [*map(moved, self.probe)])


# -- Docker and Compose


def dockerfile() -> Iterator[tuple[str, str]]:
    """Yield the instructions of the Dockerfile, each with what stands behind it."""
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            instruction, _, rest = line.partition(" ")
            yield instruction, rest.strip()


def instructions(name: str) -> list[str]:
    return [rest for instruction, rest in dockerfile() if instruction == name]


def of_image() -> Recipe:
    """The default command of the image."""
    (command,) = instructions("CMD")
    (check,) = instructions("HEALTHCHECK")
    environment = dict(pair.split("=", 1) for line in instructions("ENV") for pair in shlex.split(line))
    return Recipe(json.loads(command), environment, 0, json.loads(check.partition("CMD ")[2]))


def compose() -> dict[str, Any]:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def of_compose(name: str, **given: str) -> Recipe:
    """A service of compose.yaml; `given` are the variables of the shell that starts it."""
    image, service = of_image(), compose()["services"][name]
    environment = {key: VARIABLE.sub(lambda found: given[found[1]], str(value)) for key, value in
                   service["environment"].items()}  # fmt: skip
    check = service.get("healthcheck", {}).get("test", ["CMD", *image.probe])
    return Recipe(
        service.get("command", image.argv),
        image.environment | environment,
        float(service["stop_grace_period"].removesuffix("s")),
        check[1:],
    )


# -- systemd


def unit(path: Path) -> dict[str, list[str]]:
    """The settings of a unit, all sections together; a setting may stand there more than once."""
    found: dict[str, list[str]] = {}
    for line in path.read_text().splitlines():
        if line and line[0] not in "#[":
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def of_unit(name: str, instance: str = "1") -> Recipe:
    """A service of systemd."""
    found = unit(DEPLOY / "systemd" / name)
    (command,), (stop,) = found["ExecStart"], found["TimeoutStopSec"]
    lines = (DEPLOY / "systemd" / "shop.env").read_text().splitlines()
    environment = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    argv = shlex.split(command.replace("%i", instance))
    port = argv[argv.index("--probe" if "--probe" in argv else "--port") + 1]
    return Recipe(argv, environment, float(stop), ["python", "-m", "ostinato.probe", "ready", port])


# -- Kubernetes


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / name).read_text()))


def of_kind(kind: str) -> list[dict[str, Any]]:
    """All objects of a kind, of the plain manifests."""
    found = (each for name in MANIFESTS for each in documents(f"kubernetes/{name}"))
    return [each for each in found if each["kind"] == kind]


def pod_of(name: str) -> dict[str, Any]:
    """The pod of a Deployment."""
    (found,) = (each for each in of_kind("Deployment") if each["metadata"]["name"] == name)
    return found["spec"]["template"]["spec"]


def of_container(pod: Mapping[str, Any], container: Mapping[str, Any], secret: Mapping[str, str]) -> Recipe:
    """A container of a pod; `secret` has the values of the secret."""
    (settings,) = of_kind("ConfigMap")
    assert [each["configMapRef"]["name"] for each in container["envFrom"]] == [settings["metadata"]["name"]]
    environment = of_image().environment | settings["data"]
    for each in container["env"]:
        environment[each["name"]] = secret[each["valueFrom"]["secretKeyRef"]["key"]]
    sleep = container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", ["sleep", "0"])
    return Recipe(container["command"], environment, pod["terminationGracePeriodSeconds"] - float(sleep[1]))
