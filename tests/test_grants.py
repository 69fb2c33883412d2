"""The secrets that a host grants: by name, and files by their real path."""

import re
from pathlib import Path

import pytest

import ostinato
from ostinato.config import Grants
from ostinato.core.auth import check_reference, references
from ostinato.core.errors import Invalid
from tests.loading import load, refusal

SOURCE = Path(ostinato.__file__).parent


@pytest.fixture
def folder(tmp_path):
    """A granted folder with one secret, beside a file that is not granted."""
    (tmp_path / "granted").mkdir()
    (tmp_path / "granted" / "token").write_text("s3cret\n")
    (tmp_path / "granted_too").mkdir()
    (tmp_path / "granted_too" / "token").write_text("not this")
    (tmp_path / "passwd").write_text("root:x")
    return tmp_path


def granting(folder):
    return Grants((f"file:{folder}/granted/*",))


def test_by_default_variables_that_begin_with_secret_and_files_of_run_secrets_are_granted():
    usual = Grants()
    assert usual.reveal("env:SECRET_TOKEN", {"SECRET_TOKEN": "s3cret"}) == "s3cret"
    assert usual.allows("file:/run/secrets/token")
    for reference in (
        "env:TOKEN",
        "env:MY_SECRET_TOKEN",
        "env:PATH",
        "file:/etc/passwd",
        "file:/run/secrets",
    ):
        assert not usual.allows(reference), reference


def test_a_refusal_says_what_to_add():
    with pytest.raises(
        Invalid, match=r"The secret env:TOKEN is not granted on this host\. Add env:TOKEN to OSTINATO_S"
    ):
        Grants().reveal("env:TOKEN", {"TOKEN": "s3cret"})


def test_single_secrets_can_be_granted(folder):
    single = Grants(("env:TOKEN", f"file:{folder}/passwd"))
    assert single.reveal("env:TOKEN", {"TOKEN": "s3cret"}) == "s3cret"
    assert not single.allows("env:TOKEN_2")
    assert single.reveal(f"file:{folder}/passwd") == "root:x"
    assert not single.allows(f"file:{folder}/passwd2")


def test_a_file_of_a_granted_folder_is_read(folder):
    assert granting(folder).reveal(f"file:{folder}/granted/token") == "s3cret"
    assert granting(folder).reveal(f"file:{folder}/granted/../granted/token") == "s3cret"


@pytest.mark.parametrize(
    "path",
    [
        "granted/../passwd",
        "granted/x/../../passwd",
        "passwd",
        "granted_too/token",
        "granted",
        "granted/.",
        "granted/",
    ],
)
def test_a_path_that_leads_out_of_the_folder_is_refused(folder, path):
    with pytest.raises(Invalid, match="is not granted"):
        granting(folder).reveal(f"file:{folder}/{path}")


def test_a_relative_path_counts_by_where_it_leads(folder, monkeypatch):
    monkeypatch.chdir(folder / "granted")
    assert granting(folder).reveal("file:token") == "s3cret"
    assert not granting(folder).allows("file:../passwd")


def test_a_link_counts_by_where_it_leads(folder):
    (folder / "granted" / "out").symlink_to(folder / "passwd")
    (folder / "granted" / "up").symlink_to(folder)
    (folder / "granted" / "environ").symlink_to("/proc/self/environ")
    for path in ("out", "up/passwd", "up/granted_too/token", "environ"):
        with pytest.raises(Invalid, match=r"is not granted on this host\. Its path has a link"):
            granting(folder).reveal(f"file:{folder}/granted/{path}")
    (folder / "in").symlink_to(folder / "granted")
    assert granting(folder).reveal(f"file:{folder}/in/token") == "s3cret"
    assert Grants((f"file:{folder}/in/*",)).reveal(f"file:{folder}/granted/token") == "s3cret"


def test_the_links_of_a_kubernetes_secret_stay_in_its_folder(folder):
    (folder / "granted" / "..2026_11_18").mkdir()
    (folder / "granted" / "..2026_11_18" / "key").write_text("k8s")
    (folder / "granted" / "..data").symlink_to("..2026_11_18")
    (folder / "granted" / "key").symlink_to("..data/key")
    assert granting(folder).reveal(f"file:{folder}/granted/key") == "k8s"


@pytest.mark.parametrize(
    "reference",
    [
        "env:OSTINATO_AUTH_SECRET", "file:/proc/self/environ", "file:/proc/1/environ", "file:/dev/fd/0",
        "file:/sys/kernel/notes", "file://proc/self/environ", "file:/run/../proc/self/environ", "file:/proc",
    ],
)  # fmt: skip
def test_no_grant_opens_our_settings_or_the_kernels_files(reference):
    folders = ("/", "/etc", "/proc", "/proc/self", "/proc/1", "/dev/fd", "/sys/kernel")
    everything = Grants(("env:*", *(f"file:{folder.rstrip('/')}/*" for folder in folders)))
    assert not everything.allows(reference)
    with pytest.raises(Invalid, match=r"must not name (one of Ostinato.s own settings|a file in)"):
        check_reference(reference, "auth.token")
    assert everything.allows("env:ANYTHING")
    assert everything.allows("file:/etc/passwd")


def test_a_grant_of_a_folder_opens_no_folder_inside_it(folder):
    inside = folder / "granted" / "kubernetes.io" / "serviceaccount"
    inside.mkdir(parents=True)
    (inside / "token").write_text("of the service account")
    (inside.parent / "..data").symlink_to("serviceaccount")
    for path in ("kubernetes.io/serviceaccount/token", "kubernetes.io/..data/token"):
        assert not granting(folder).allows(f"file:{folder}/granted/{path}"), path
    assert not Grants().allows("file:/run/secrets/kubernetes.io/serviceaccount/token")
    assert not Grants().allows("file:/var/run/secrets/kubernetes.io/serviceaccount/token")


@pytest.mark.parametrize("spelling", ["key", "linked/key", "../granted/key", "copy"])
def test_no_grant_opens_a_secret_that_our_own_settings_use(folder, spelling):
    (folder / "granted" / "key").write_text("k" * 32)
    (folder / "granted" / "linked").symlink_to(folder / "granted")
    (folder / "granted" / "copy").hardlink_to(folder / "granted" / "key")
    environ = {
        "OSTINATO_AUTH_SECRET": f"file:{folder}/granted/key",
        "OSTINATO_HEARTBEAT_URL": "env:SECRET_BEAT",
        "OSTINATO_REDIS_URL": "env:SECRET_REDIS",
        "OSTINATO_SECRETS": f"env:SECRET_*,file:{folder}/granted/*",
    }
    grants = Grants.of(load(folder, environ=environ).permits)
    for reference in (f"file:{folder}/granted/{spelling}", "env:SECRET_BEAT", "env:SECRET_REDIS"):
        with pytest.raises(Invalid, match=r"is one of Ostinato's settings .* Name another secret"):
            grants.reveal(reference, {"SECRET_BEAT": "x", "SECRET_REDIS": "x"})
    assert grants.allows(f"file:{folder}/granted/token")
    assert grants.allows("env:SECRET_OTHER")


def test_no_grant_opens_the_file_that_holds_our_settings(folder):
    text = f'auth_secret = "{"s" * 32}"\nsecrets = ["file:{folder}/*"]'
    grants = Grants.of(load(folder, file=text).permits)
    assert not grants.allows(f"file:{folder}/ostinato.toml")
    assert grants.allows(f"file:{folder}/passwd")


def test_the_door_leaves_the_rest_to_the_worker():
    for reference in (
        "env:TOKEN",
        "file:/etc/passwd",
        "file:/processes/x",
        "file:proc/x",
        "file:/run/secrets/dev",
    ):
        assert check_reference(reference, "auth.token") == reference


@pytest.mark.parametrize(
    "wrong",
    ["TOKEN", "env:", "env:A*B", "file:token", "file:/a/*/b", "file:/a*", "file:/", "env:OSTINATO_*",
     "env:OSTINATO_AUTH_SECRET", "file:/proc/*", "file:/run/../sys/*", "env:A;env:B"],
)  # fmt: skip
def test_a_grant_that_is_none_is_refused(tmp_path, wrong):
    told = refusal(tmp_path, environ={"OSTINATO_SECRETS": f"env:SECRET_*,{wrong}"})
    assert re.search(r"secrets cannot be .*references such as env:SECRET_\* or file:/run/secrets/\*", told)


def test_the_setting_replaces_the_default_and_can_grant_nothing(tmp_path):
    assert load(tmp_path).permits.secrets == ("env:SECRET_*", "file:/run/secrets/*")
    assert load(tmp_path, environ={"OSTINATO_SECRETS": "env:A, file:/b/*"}).permits.secrets == (
        "env:A",
        "file:/b/*",
    )
    assert not Grants(load(tmp_path, environ={"OSTINATO_SECRETS": ""}).secrets).allows("env:SECRET_A")


def test_references_are_found_where_a_secret_can_stand():
    basic = {"type": "basic", "username": "env:USER", "password": "env:P"}
    oauth = {"type": "oauth2_client_credentials", "clientId": "env:ID", "client_secret": "file:/s"}
    assert list(references({"url": "u", "auth": basic, "json": {"x": "env:BODY"}})) == ["env:P"]
    assert list(references({"argv": ["env:A"], "secrets": {"P": "env:B"}})) == ["env:B"]
    assert list(references({"source": {"auth": oauth, "database": "env:DB"}}, ["source"])) == ["file:/s", "env:DB"]
    assert list(references({"auth": "x", "secrets": 1, "source": [], "database": "sqlite:///a"}, ["source"])) == []
    assert list(references(None, ["source"])) == []


def test_nothing_but_the_settings_reads_a_secret_without_asking_the_grants():
    """`Secret` is for Ostinato's own settings: no other module uses it."""
    known = {"config", "features/notifications/heartbeat.py"}
    users = [path for path in SOURCE.rglob("*.py") if re.search(r"import .*\bSecret\b", path.read_text())]
    strange = [str(path.relative_to(SOURCE)) for path in users]
    assert [path for path in strange if path not in known and path.split("/")[0] not in known] == []
