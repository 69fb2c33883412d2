"""The files of deploy/ as the tools of their formats read them, and the names in them that must fit each other."""

import re
import subprocess
import sys

import pytest
import yaml

from ostinato.config.settings import BY_ENV, Settings
from tests.browser.chromium import is_needed
from tests.deploy import systemd
from tests.deploy.recipes import (
    DEPLOY,
    MANIFESTS,
    UNITS,
    compose,
    dockerfile,
    documents,
    instructions,
    of_compose,
    of_container,
    of_image,
    of_kind,
    of_unit,
    pod_of,
    unit,
)
from tests.docs.pages import ROOT
from tests.waiting import PATIENCE

HTTP_STOPS = 5  # seconds that HTTP has, before the worker: docs/guides/operating.md
SECRET = {"database-url": "postgresql://shop@postgres/shop", "auth-secret": "x" * 32}
PAGE = ROOT / "docs" / "guides" / "deploying.md"


def run(*command: object) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


# -- systemd


@pytest.fixture
def analyze() -> str:
    if (found := systemd.find()) is None:
        assert not is_needed(), systemd.MISSING
        pytest.skip(systemd.MISSING)
    return found


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_systemd_accepts_the_units(analyze, path, tmp_path):
    """It looks for the program of ExecStart, which stands somewhere else here."""
    copy = tmp_path / path.name
    text, count = re.subn(r"^ExecStart=\S+", f"ExecStart={sys.executable}", path.read_text(), flags=re.M)
    assert count == 1
    copy.write_text(text)
    assert run(analyze, "verify", copy) == ""
    wrong = tmp_path / f"wrong-{path.name}"
    wrong.write_text(text.replace("KillMode=", "KilMode="))
    told = subprocess.run([analyze, "verify", wrong], capture_output=True, text=True, timeout=PATIENCE)
    assert "KilMode" in told.stderr


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_the_units_give_little_to_an_attacker(analyze, path):
    run(analyze, "security", "--offline=yes", "--threshold=20", path)  # 0.0 to 10.0: at most 2.0


def test_the_units_stop_the_main_process_first_and_do_not_repeat_what_needs_a_person():
    assert [path.name for path in UNITS] == ["ostinato-serve.service", "ostinato-worker@.service"]
    for path in UNITS:
        found = unit(path)
        assert found["KillMode"] == ["mixed"]
        assert found["RestartPreventExitStatus"] == ["2 5"]  # bad input, and another database or an older schema


# -- Compose and the image


def test_compose_accepts_the_services():
    run(sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", DEPLOY / "compose.yaml")


def test_compose_starts_two_workers_after_the_upgrade():
    services = compose()["services"]
    assert set(services) == {"postgres", "upgrade", "serve", "worker"}
    assert services["worker"]["deploy"] == {"replicas": 2}
    for name in ("serve", "worker"):
        assert services[name]["depends_on"] == {"upgrade": {"condition": "service_completed_successfully"}}
    assert list(services["upgrade"]["depends_on"]) == ["postgres"]


def test_the_image_runs_without_root_and_has_no_other_instructions_than_the_tests_know():
    known = {"FROM", "ENV", "WORKDIR", "COPY", "RUN", "USER", "EXPOSE", "HEALTHCHECK", "CMD"}
    assert {instruction for instruction, _ in dockerfile()} == known
    (user,) = instructions("USER")
    (base,) = instructions("FROM")
    assert user == "10001:10001"
    assert base.endswith("-slim")
    assert of_image().probe == ["python", "-m", "ostinato.probe", "live"]


# -- Kubernetes


@pytest.mark.parametrize("name", MANIFESTS)
def test_kubernetes_accepts_the_manifests(name):
    for version in ("1.30", "1.37"):
        run(sys.executable, "-m", "kubernetes_validate", "--strict", "-k", version, DEPLOY / "kubernetes" / name)


def test_kustomize_takes_every_manifest_and_sets_the_image():
    (found,) = documents("kubernetes/kustomization.yaml")
    assert sorted(found["resources"]) == sorted(MANIFESTS)
    assert {path.name for path in (DEPLOY / "kubernetes").iterdir()} == {*MANIFESTS, "kustomization.yaml"}
    pods = [each["spec"]["template"]["spec"] for each in of_kind("Deployment")]
    images = {container["image"] for pod in pods for container in [*pod["initContainers"], *pod["containers"]]}
    assert images == {each["name"] for each in found["images"]}


def test_the_names_of_the_manifests_fit_each_other():
    labels = {
        each["metadata"]["name"]: each["spec"]["template"]["metadata"]["labels"] for each in of_kind("Deployment")
    }
    for each in of_kind("Deployment") + of_kind("PodDisruptionBudget"):
        assert each["spec"]["selector"]["matchLabels"] == labels[each["metadata"]["name"]]
    (service,) = of_kind("Service")
    assert service["spec"]["selector"] == labels["ostinato-serve"]
    (serve,) = pod_of("ostinato-serve")["containers"]
    assert {each["targetPort"] for each in service["spec"]["ports"]} == {each["name"] for each in serve["ports"]}
    assert len(set(map(str, labels.values()))) == 2


@pytest.mark.parametrize("name", ["ostinato-serve", "ostinato-worker"])
def test_a_pod_has_no_rights_and_its_secrets_come_by_reference(name):
    pod = pod_of(name)
    assert pod["securityContext"]["runAsNonRoot"]
    assert str(pod["securityContext"]["runAsUser"]) == instructions("USER")[0].partition(":")[0]
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False  # OSTINATO_PORT would be an unknown setting
    for container in [*pod["initContainers"], *pod["containers"]]:
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert {each["valueFrom"]["secretKeyRef"]["key"] for each in container["env"]} <= SECRET.keys()
    assert pod["initContainers"][0]["command"] == ["ostinato", "db", "upgrade"]


# -- what all of them have in common


def all_recipes():
    found = {path.name: of_unit(path.name) for path in UNITS}
    given = {"POSTGRES_PASSWORD": "p", "OSTINATO_AUTH_SECRET": "s" * 32}
    found |= {f"compose {name}": of_compose(name, **given) for name in ("upgrade", "serve", "worker")}
    for name in ("ostinato-serve", "ostinato-worker"):
        pod = pod_of(name)
        (container,) = pod["containers"]
        found[f"kubernetes {name}"] = of_container(pod, container, SECRET)
    return found


RECIPES = all_recipes()


@pytest.mark.parametrize("name", RECIPES)
def test_a_process_has_the_time_to_finish_its_runs(name):
    recipe = RECIPES[name]
    grace = recipe.environment.get("OSTINATO_SHUTDOWN_GRACE", "20s")
    needed = float(grace.removesuffix("s")) + HTTP_STOPS + Settings().stop_grace.total_seconds()
    assert recipe.seconds_to_stop > needed


@pytest.mark.parametrize("name", RECIPES)
def test_a_process_has_only_settings_that_exist(name):
    ours = {each for each in RECIPES[name].environment if each.startswith("OSTINATO_")}
    assert ours - BY_ENV.keys() == {"OSTINATO_APP"}


def test_keda_scales_the_deployment_of_the_manifests_by_its_slots():
    authentication, scaled = documents("keda.yaml")
    assert authentication["spec"]["secretTargetRef"] == [
        {"parameter": "connection", "name": "ostinato", "key": "database-url"}
    ]
    assert scaled["spec"]["scaleTargetRef"] == {"name": "ostinato-worker"}
    (trigger,) = scaled["spec"]["triggers"]
    assert trigger["authenticationRef"]["name"] == authentication["metadata"]["name"]
    (settings,) = of_kind("ConfigMap")
    assert trigger["metadata"]["targetQueryValue"] == settings["data"]["OSTINATO_CONCURRENCY"]
    assert scaled["spec"]["minReplicaCount"] >= 1


def test_the_page_names_every_file():
    page = PAGE.read_text()
    files = [path for path in DEPLOY.rglob("*") if path.is_file() and "grafana" not in path.parts]
    assert [path.name for path in files if path.name not in page and "__pycache__" not in path.parts] == []


def test_every_yaml_file_of_the_folder_is_checked_here():
    """A file that is added without a check would look as if it had one."""
    found = {str(path.relative_to(DEPLOY)) for path in DEPLOY.rglob("*.yaml") if "grafana" not in path.parts}
    known = {
        "compose.yaml",
        "keda.yaml",
        "kubernetes/kustomization.yaml",
        *(f"kubernetes/{name}" for name in MANIFESTS),
    }
    assert found == known
    assert all(list(yaml.safe_load_all((DEPLOY / name).read_text())) for name in found)
