"""Settings: their origins, their allowed values, and the errors for wrong ones."""

import subprocess
import sys
from datetime import timedelta

import pytest

from ostinato.config import BY_NAME, SETTINGS, LogFormat, LogLevel, Settings, written
from ostinato.core.addresses import EVERYWHERE, PUBLIC_ONLY, Egress
from ostinato.core.errors import InvalidSetting
from tests.loading import SECRET, load, refusal

SECOND = timedelta(seconds=1)


def test_the_defaults_are_those_of_the_design(tmp_path):
    assert load(tmp_path).shown() == {
        "database_url": "sqlite:///ostinato.db",
        "schema": "ostinato",
        "data_folder": "",
        "timezone": "UTC",
        "poll_interval": "5s",
        "concurrency": "5",
        "queues": "",
        "features": "",
        "engine": "local",
        "redis_url": "",
        "lease": "30s",
        "renew": "10s",
        "sweep": "10s",
        "metrics": "30s",
        "shutdown_grace": "20s",
        "isolation": "thread",
        "stop_grace": "5s",
        "recycle_runs": "1000",
        "recycle_memory_mb": "256",
        "keep_executions": "100",
        "keep_days": "30",
        "keep_log_mb": "10",
        "capture_output": "on",
        "run_log": "on",
        "log_format": "text",
        "log_level": "info",
        "http_process": "on",
        "probe": "",
        "otel": "off",
        "trace_url": "",
        "sentry": "off",
        "auth_secret": "",
        "auth_public_key": "",
        "auth_audience": "",
        "auth_issuer": "",
        "auth_lifetime": "30d",
        "auth_default_role": "none",
        "auth_required": "off",
        "allow_private_addresses": "off",
        "allow_commands": "off",
        "allow_shell": "off",
        "command_environment": "PATH,HOME,LANG,LC_ALL,TZ,USER,LOGNAME,SHELL,TMPDIR",
        "python_prefixes": "",
        "secrets": "env:SECRET_*,file:/run/secrets/*",
        "heartbeat_url": "",
    }
    assert load(tmp_path) == Settings()
    assert set(load(tmp_path).origins.values()) == {"default"}


FILE = "concurrency = 2"
PROJECT = "[tool.ostinato]\nconcurrency = 1"
ENVIRON = {"OSTINATO_CONCURRENCY": "3"}


@pytest.mark.parametrize(
    ("given", "value", "origin"),
    [
        ({}, 5, "default"),
        ({"project": PROJECT}, 1, "{folder}/pyproject.toml"),
        ({"project": PROJECT, "file": FILE}, 2, "{folder}/ostinato.toml"),
        ({"project": PROJECT, "file": ""}, 5, "default"),
        ({"project": "[tool.other]\nconcurrency = 9"}, 5, "default"),
        ({"file": FILE, "environ": ENVIRON}, 3, "OSTINATO_CONCURRENCY"),
        ({"file": FILE, "environ": ENVIRON, "arguments": {"concurrency": 4}}, 4, "argument"),
        ({"environ": ENVIRON, "arguments": {"concurrency": None}}, 3, "OSTINATO_CONCURRENCY"),
    ],
)
def test_whoever_is_nearer_wins_and_is_remembered(tmp_path, given, value, origin):
    settings = load(tmp_path, **given)
    assert settings.concurrency == value
    assert settings.origins["concurrency"] == origin.format(folder=tmp_path)
    assert settings.origins["lease"] == "default"


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("allow_private_addresses", "on", EVERYWHERE),
        ("allow_private_addresses", "off", PUBLIC_ONLY),
        (
            "allow_private_addresses",
            "10.0.0.0/8, fd00::/8,192.168.1.1",
            Egress(("10.0.0.0/8", "fd00::/8", "192.168.1.1/32")),
        ),
        ("allow_private_addresses", "0.0.0.0/0,::/0", EVERYWHERE),
        ("data_folder", "/var/lib/ostinato", "/var/lib/ostinato"),
        ("database_url", "sqlite:////var/lib/ostinato.db", "sqlite:////var/lib/ostinato.db"),
        ("database_url", SECRET, SECRET),
        ("database_url", "postgres:///jobs", "postgres:///jobs"),
        ("schema", "ours_2", "ours_2"),
        ("timezone", "Europe/Paris", "Europe/Paris"),
        ("poll_interval", "0.5", SECOND / 2),
        ("poll_interval", "1m", 60 * SECOND),
        ("concurrency", "100", 100),
        ("lease", "60", 60 * SECOND),
        ("lease", "1m", 60 * SECOND),
        ("renew", "14s", 14 * SECOND),
        ("sweep", "500ms", SECOND / 2),
        ("metrics", "10m", 600 * SECOND),
        ("shutdown_grace", "0", timedelta(0)),
        ("queues", "", ()),
        ("queues", "mail", ("mail",)),
        ("queues", " mail, slow ,,mail", ("mail", "slow")),
        ("keep_executions", "1", 1),
        ("keep_days", "0", 0),
        ("run_log", "off", False),
        ("run_log", "0", False),
        ("run_log", "FALSE", False),
        ("run_log", "no", False),
        ("run_log", "yes", True),
        ("log_format", "JSON", LogFormat.JSON),
        ("log_level", "Debug", LogLevel.DEBUG),
    ],
)
def test_text_from_the_environment_becomes_a_typed_value(tmp_path, name, text, value):
    found = getattr(load(tmp_path, environ={BY_NAME[name].env: text}), name)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("poll_interval = 2", "poll_interval", 2 * SECOND),
        ("poll_interval = 0.5", "poll_interval", SECOND / 2),
        ('poll_interval = "2s"', "poll_interval", 2 * SECOND),
        ('queues = ["mail", "slow"]', "queues", ("mail", "slow")),
        ('queues = "mail,slow"', "queues", ("mail", "slow")),
        ("run_log = false", "run_log", False),
        ('log_format = "json"', "log_format", LogFormat.JSON),
    ],
)
def test_a_file_may_use_the_values_that_toml_has(tmp_path, line, name, value):
    assert getattr(load(tmp_path, file=line), name) == value


@pytest.mark.parametrize(
    ("variable", "text", "allowed"),
    [
        ("OSTINATO_DATABASE_URL", "ostinato.db", "sqlite:///file.db"),
        ("OSTINATO_DATABASE_URL", "", "sqlite:///file.db"),
        ("OSTINATO_DATABASE_URL", "sqlite://ostinato.db", "sqlite:///file.db"),
        ("OSTINATO_DATABASE_URL", "sqlite:///", "sqlite:///file.db"),
        ("OSTINATO_DATABASE_URL", "mysql://host/db", "postgresql://"),
        ("OSTINATO_SCHEMA", "Robert'); drop", "63 characters a-z"),
        ("OSTINATO_SCHEMA", "pg_ours", "nor pg_"),
        ("OSTINATO_SCHEMA", "s" * 64, "63 characters a-z"),
        ("OSTINATO_TIMEZONE", "Europe/Pariss", "did you mean Europe/Paris"),
        ("OSTINATO_POLL_INTERVAL", "soon", "write it like 30s"),
        ("OSTINATO_POLL_INTERVAL", "", "write it like 30s"),
        ("OSTINATO_POLL_INTERVAL", "0", "a duration from 10ms to 10m"),
        ("OSTINATO_POLL_INTERVAL", "-1", "write it like 30s"),
        ("OSTINATO_POLL_INTERVAL", "3000", "That would be 50m. Allowed is a duration from 10ms to 10m"),
        ("OSTINATO_LEASE_SECONDS", "900ms", "a duration from 1s to 30m"),
        ("OSTINATO_LEASE_SECONDS", "3000", "That would be 50m."),
        ("OSTINATO_RENEW_SECONDS", "3000", "That would be 50m."),
        ("OSTINATO_SWEEP_SECONDS", "3000", "That would be 50m."),
        ("OSTINATO_METRICS_SECONDS", "3000", "That would be 50m."),
        ("OSTINATO_STOP_GRACE", "3000", "That would be 50m."),
        ("OSTINATO_SHUTDOWN_GRACE", "100000", "Allowed is a duration from 0s to 1d"),
        ("OSTINATO_CONCURRENCY", "0", "a whole number from 1 to 10000"),
        ("OSTINATO_CONCURRENCY", "-5", "a whole number from 1 to 10000"),
        ("OSTINATO_CONCURRENCY", "many", "a whole number from 1 to 10000"),
        ("OSTINATO_CONCURRENCY", "2.5", "a whole number from 1 to 10000"),
        ("OSTINATO_CONCURRENCY", "9" * 5000, "a whole number from 1 to 10000"),
        ("OSTINATO_KEEP_EXECUTIONS", "0", "a whole number from 1"),
        ("OSTINATO_KEEP_DAYS", "40000", "a whole number from 0 to 36500"),
        ("OSTINATO_RUN_LOG", "maybe", "on or off"),
        ("OSTINATO_LOG_FORMAT", "xml", "one of text, json"),
        ("OSTINATO_LOG_LEVEL", "loud", "one of debug, info, warning, error"),
    ],
)
def test_a_wrong_variable_is_refused_by_name_with_its_value_and_what_is_allowed(tmp_path, variable, text, allowed):
    sentence = refusal(tmp_path, environ={variable: text})
    assert variable in sentence
    assert text[:60] in sentence
    assert allowed in sentence
    assert len(sentence) < 400


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("concurrency = true", "True"),
        ("concurrency = 2.0", "2.0"),
        ("lease = true", "True"),
        ("lease = -5", "-5"),
        ("lease = nan", "nan"),
        ("lease = 2026-11-16", "2026-11-16"),
        ("queues = 5", "5"),
        ("queues = [1, 2]", "[1, 2]"),
        ("run_log = 2", "2"),
        ("timezone = 5", "5"),
        ("schema = []", "[]"),
        ("[lease]\nseconds = 5", "{'seconds': 5}"),
    ],
)
def test_a_wrong_line_is_refused_by_file_and_key(tmp_path, line, value):
    name = line.split(" ")[0].split("]")[0].strip("[")
    where = f"{name} cannot be {value} ({tmp_path / 'ostinato.toml'})."
    assert refusal(tmp_path, file=line).startswith(where)


@pytest.mark.parametrize(
    ("file", "says"),
    [("lease 5", "cannot be read"), ('lease = "\udc80"', "cannot be read")],
)
def test_a_file_that_is_not_toml_is_refused_by_its_path(tmp_path, file, says):
    (tmp_path / "ostinato.toml").write_bytes(file.encode("utf-8", "surrogateescape"))
    sentence = refusal(tmp_path)
    assert str(tmp_path / "ostinato.toml") in sentence
    assert says in sentence


@pytest.mark.parametrize("project", ["tool = 5", "[tool]\nostinato = 5"])
def test_a_project_file_of_another_shape_is_refused(tmp_path, project):
    assert "must be a table: [tool.ostinato]" in refusal(tmp_path, project=project)


@pytest.mark.parametrize(
    ("environ", "renew"),
    [
        ({}, 10 * SECOND),
        ({"OSTINATO_LEASE_SECONDS": "60"}, 10 * SECOND),
        ({"OSTINATO_LEASE_SECONDS": "3"}, SECOND),
        ({"OSTINATO_LEASE_SECONDS": "3", "OSTINATO_RENEW_SECONDS": "1.4"}, 1.4 * SECOND),
    ],
)
def test_without_a_word_about_it_renewals_keep_to_a_third_of_the_lease(tmp_path, environ, renew):
    assert load(tmp_path, environ=environ).renew == renew


@pytest.mark.parametrize(("lease", "renew"), [("30", "15"), ("30", "30"), ("2", "10"), ("1", "500ms")])
def test_renewals_must_be_closer_than_half_the_lease(tmp_path, lease, renew):
    sentence = refusal(tmp_path, environ={"OSTINATO_LEASE_SECONDS": lease, "OSTINATO_RENEW_SECONDS": renew})
    assert "less than half the lease" in sentence
    assert "OSTINATO_LEASE_SECONDS" in sentence
    assert "OSTINATO_RENEW_SECONDS" in sentence


@pytest.mark.parametrize(
    "wrong",
    [
        {"concurrency": 0},
        {"renew": 20 * SECOND},
        {"lease": SECOND / 2, "renew": SECOND / 10},
        {"timezone": "X"},
    ],
)
def test_settings_made_by_hand_are_checked_too(wrong):
    with pytest.raises(InvalidSetting, match="argument"):
        Settings(**wrong)


def test_settings_cannot_be_changed():
    with pytest.raises(AttributeError):
        Settings().concurrency = 7


def test_settings_that_say_the_same_are_equal_wherever_they_come_from(tmp_path):
    one, other = load(tmp_path, environ=ENVIRON), Settings(concurrency=3)
    assert one.origins != other.origins
    assert one == other
    assert hash(one) == hash(other)


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("OSTINATO_LEESE_SECONDS", "OSTINATO_LEASE_SECONDS"),
        ("OSTINATO_LEASE", "OSTINATO_LEASE_SECONDS"),
        ("OSTINATO_DATABSE_URL", "OSTINATO_DATABASE_URL"),
        ("OSTINATO_QUEUE", "OSTINATO_QUEUES"),
        ("OSTINATO_TIME_ZONE", "OSTINATO_TIMEZONE"),
        ("OSTINATO_XYZZY", None),
    ],
)
def test_an_unknown_variable_is_a_warning_that_guesses_what_was_meant(tmp_path, variable, meant):
    (warning,) = load(tmp_path, environ={variable: "s3cret"}).warnings
    assert variable in warning
    assert "s3cret" not in warning
    assert warning.endswith(f"; did you mean {meant}?" if meant else "ignored.")


@pytest.mark.parametrize(
    ("key", "meant"),
    [("leese", "lease"), ("lease_seconds", "lease"), ("plugh", None), ("database-url", "database_url")],
)
def test_an_unknown_key_is_a_warning_with_the_file(tmp_path, key, meant):
    (warning,) = load(tmp_path, file=f"{key} = 5").warnings
    assert warning.startswith(f"{key} in {tmp_path / 'ostinato.toml'} ")
    assert warning.endswith(f"; did you mean {meant}?" if meant else "ignored.")


def test_the_variables_of_chronos_are_named_with_what_to_write(tmp_path):
    environ = {"POLL_INTERVAL": "3000", "CONCURRENCY": "10"}
    assert load(tmp_path, environ=environ).warnings == (
        "The environment variable POLL_INTERVAL=3000 is not read: write OSTINATO_POLL_INTERVAL=3s.",
        "The environment variable CONCURRENCY=10 is not read: write OSTINATO_CONCURRENCY=10.",
    )
    ours = {"OSTINATO_POLL_INTERVAL": "3s", "OSTINATO_CONCURRENCY": "10"}
    assert load(tmp_path, environ=environ | ours).warnings == ()
    assert load(tmp_path, environ={"CONCURRENCY": "many"}).warnings == ()


def test_an_unknown_argument_is_a_mistake_in_the_program(tmp_path):
    assert refusal(tmp_path, arguments={"concurency": 5}) == "concurency is not a setting; did you mean concurrency?"


def test_variables_of_others_and_those_handed_to_commands_are_no_warning(tmp_path):
    names = ["RUN_JOB", "RUN_KEY", "RUN_ATTEMPT", "RUN_DUE_AT"]
    environ = {f"OSTINATO_{name}": "x" for name in names} | {"PATH": "x", "MY_OSTINATO_LEASE": "x"}
    assert load(tmp_path, environ=environ).warnings == ()


@pytest.mark.parametrize("each", SETTINGS, ids=lambda each: each.name)
def test_every_setting_has_a_variable_of_its_own_a_default_that_is_allowed_and_a_sentence(each):
    assert each.env.startswith("OSTINATO_")
    assert [other.name for other in SETTINGS if other.env == each.env] == [each.name]
    assert each.help[0].isupper()
    assert each.help.endswith(".")
    assert each.read(each.default, "default") == each.default


@pytest.mark.parametrize("each", SETTINGS, ids=lambda each: each.name)
def test_what_is_shown_can_be_read_back(tmp_path, each):
    assert load(tmp_path, environ={each.env: written(each.default)}) == Settings()


def test_the_working_folder_and_the_environment_are_read_when_settings_are_loaded(tmp_path, monkeypatch):
    (tmp_path / "ostinato.toml").write_text("concurrency = 2")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OSTINATO_LEASE_SECONDS", "40")
    settings = Settings.load()
    assert (settings.concurrency, settings.lease) == (2, 40 * SECOND)
    assert settings.origins["concurrency"] == str(tmp_path / "ostinato.toml")


def test_importing_settings_stays_cheap():
    heavy = "{'pydantic', 'tomllib', 'asyncio', 'psycopg', 'sqlite3'}"
    code = f"import sys, ostinato.config; print(sorted({heavy} & sys.modules.keys()))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
