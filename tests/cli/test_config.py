"""`ostinato config show`."""

import json


def row(answer, name):
    return next(line.split() for line in answer.out.splitlines() if line.startswith(name))


def test_every_setting_with_its_value(ostinato):
    answer = ostinato("config", "show")
    assert answer.code == 0
    assert row(answer, "timezone") == ["timezone", "UTC"]


def test_where_each_comes_from(ostinato, tmp_path, monkeypatch):
    monkeypatch.setenv("OSTINATO_CONCURRENCY", "7")
    (tmp_path / "ostinato.toml").write_text('timezone = "Europe/Paris"')
    answer = ostinato("config", "show", "--origin")
    assert row(answer, "concurrency") == ["concurrency", "7", "OSTINATO_CONCURRENCY", "OSTINATO_CONCURRENCY"]
    assert row(answer, "timezone")[1:3] == ["Europe/Paris", str(tmp_path / "ostinato.toml")]
    assert row(answer, "queues")[-2:] == ["default", "OSTINATO_QUEUES"]


def test_as_json(ostinato):
    assert json.loads(ostinato("config", "show", "--json").out)["lease"] == {"value": "30s"}
    origin = json.loads(ostinato("config", "show", "--json", "--origin").out)["lease"]
    assert origin == {"value": "30s", "origin": "default", "env": "OSTINATO_LEASE_SECONDS"}


def test_passwords_are_masked(ostinato, monkeypatch):
    monkeypatch.setenv("OSTINATO_DATABASE_URL", "postgresql://me:hush@host/db")
    for flags in ([], ["--json"]):
        answer = ostinato("config", "show", *flags)
        assert "hush" not in answer.out
        assert "postgresql://me:***@host/db" in answer.out


def test_a_mistake_is_told_beside_the_answer(ostinato, monkeypatch):
    monkeypatch.setenv("OSTINATO_CONCURENCY", "7")
    answer = ostinato("config", "show", "--json")
    assert "did you mean OSTINATO_CONCURRENCY?" in answer.err
    assert json.loads(answer.out)
