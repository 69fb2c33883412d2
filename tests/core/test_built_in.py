"""Built-in tasks: what their args may be, and what an administrator must allow."""

from __future__ import annotations

import json

import pytest

from ostinato.core.addresses import EVERYWHERE
from ostinato.core.builtin import Permits
from ostinato.core.errors import WrongArgument
from ostinato.feature import our_features
from ostinato.features.python.args import is_below

ALL = Permits(egress=EVERYWHERE, commands=True, shell=True, python=("shop", "reports.daily"))
NONE = Permits()


@pytest.mark.parametrize("name", sorted(our_features().tasks))
def test_each_is_described_and_can_be_loaded(name):
    built_in = our_features().built_in(name)
    assert built_in.name == name
    assert our_features().task(name).name == name
    json.dumps(built_in.schema)
    for field, about in built_in.schema["properties"].items():
        assert about["description"], field


@pytest.mark.parametrize(
    ("task", "args"),
    [
        ("http", {"url": "https://example.org"}),
        ("http", {"url": "https://example.org/{{ due.date }}?n={{ number }}", "headers": {"X-Job": "{{ job.name }}"}}),
        ("http", {"url": "https://example.org", "method": "POST", "json": {"a": ["{{ args.values.x.0 }}"]},
                  "values": {"x": [1]}}),
        ("http", {"url": "https://example.org", "method": "PUT", "body": "{{ job.metadata.anything }}"}),
        ("http", {"url": "https://example.org", "expect": [200, "3xx", "400-404"], "retry": []}),
        ("command", {"argv": ["ls", "-l", ""]}),
        ("command", {"script": "ls | wc -l", "shell": True, "stdin": "x", "cwd": "/tmp", "exit_codes": [0, 3]}),
        ("command", {"argv": ["ls"], "env": {"A": "b"}, "secrets": {"P": "env:SECRET_PASSWORD", "Q": "file:/run/q"}}),
        ("python", {"function": "shop:run"}),
        ("python", {"function": "shop.deep.er:run", "args": {"a": 1}}),
    ],
)  # fmt: skip
def test_good_args(task, args):
    our_features().check(task, args, ALL)


@pytest.mark.parametrize(
    ("task", "args", "field", "sentence"),
    [
        ("http", {}, "args.url", "is required"),
        ("http", {"url": "example.org"}, "args.url", "http or https"),
        ("http", {"url": "https://example.org", "body": "x", "json": 1, "method": "POST"}, "args.body", "exclude"),
        ("http", {"url": "https://example.org", "body": "x"}, "args.method", "to send a body"),
        ("http", {"url": "https://example.org/{{ nope }}"}, "args.url", "nothing of that name"),
        ("http", {"url": "https://example.org/{{ args.values.nope }}"}, "args.url", "nothing of that name"),
        ("http", {"url": "https://example.org", "headers": {"X": "{{ job.secret }}"}}, "args.headers", "job.secret"),
        ("http", {"url": "https://example.org", "headers": {"X Y": "1"}}, "args.headers.X Y", "name of a header"),
        ("http", {"url": "https://example.org", "headers": {"X": "a\nB: c"}}, "args.headers.X", "one line"),
        ("http", {"url": "https://example.org", "headers": {"Idempotency-Key": "1"}}, "args.headers.Idempotency-Key",
         "set by Ostinato"),
        *(
            ("http", {"url": "https://example.org", "headers": {name: "1"}}, f"args.headers.{name}", "set by Ostinato")
            for name in ("Transfer-Encoding", "connection", "TE", "Trailer", "Upgrade", "Expect", "Keep-Alive", "Host",
                         "Proxy-Connection", "Content-Length")
        ),
        *(
            ("http", {"url": "https://example.org", "headers": {name: "x"}}, f"args.headers.{name}", "write it as auth")
            for name in ("Authorization", "proxy-authorization", "Cookie", "X-Api-Key")
        ),
        ("http", {"url": "https://example.org", "auth": {"type": "header", "name": "TE", "value": "env:SECRET_A"}},
         "args.auth.name", "Ostinato sets this header"),
        ("http", {"url": "https://example.org", "expect": ["fine"]}, "args.expect[0]", "200, 200-299 or 2xx"),
        ("http", {"url": "https://example.org", "expect": [99]}, "args.expect[0]", "not 99"),
        ("http", {"url": "https://example.org", "expect": []}, "args.expect", "entries"),
        ("http", {"url": "https://example.org", "keep": 2_000_000}, "args.keep", "200,000"),
        ("http", {"url": "https://user:secret@example.org/"}, "args.url", "must not hold a name or a password"),
        ("http", {"url": "https://example.org", "auth": {"type": "bearer", "token": "hunter2"}}, "args.auth.token",
         "where the secret is"),
        ("http", {"url": "https://example.org", "auth": {"type": "bear"}}, "args.auth.type", "must be one of"),
        ("http", {"url": "https://example.org", "auth": "me"}, "args.auth", "must be an object"),
        ("http", {"url": "https://example.org", "auth": {"type": "bearer", "token": "env:OSTINATO_AUTH_SECRET"}},
         "args.auth.token", "Ostinato's own"),
        ("command", {}, "args.argv", "is required"),
        ("command", {"argv": []}, "args.argv", "entries"),
        ("command", {"argv": [""]}, "args.argv", "must begin with the program"),
        ("command", {"argv": "ls -l"}, "args.argv", "must be a list"),
        ("command", {"script": "ls"}, "args.script", "needs shell: true"),
        ("command", {"argv": ["ls"], "shell": True}, "args.shell", "needs script"),
        ("command", {"argv": ["ls"], "script": "ls", "shell": True}, "args.argv", "exclude"),
        ("command", {"argv": ["ls"], "env": {"a b": "c"}}, "args.env.a b", "name of a variable"),
        ("command", {"argv": ["ls"], "env": {"OSTINATO_RUN_KEY": "c"}}, "args.env.OSTINATO_RUN_KEY", "set by Ostinato"),
        ("command", {"argv": ["ls"], "secrets": {"P": "hunter2"}}, "args.secrets.P", "not what it is"),
        ("command", {"argv": ["a"], "secrets": {"P": "env:SECRET_X"}, "env": {"P": "1"}}, "args.env.P", "name it once"),
        ("command", {"argv": ["ls"], "exit_codes": [256]}, "args.exit_codes[0]", "from 0 to 255"),
        ("python", {"function": "shop.run"}, "args.function", "module:function"),
        ("python", {"function": "shop:os.system"}, "args.function", "module:function"),
        ("python", {"function": "os:system"}, "args.function", "OSTINATO_PYTHON_PREFIXES"),
        ("python", {"function": "shopping:run"}, "args.function", "is in none of shop, reports.daily"),
        ("python", {"function": "reports:run"}, "args.function", "is in none of"),
    ],
)  # fmt: skip
def test_a_refusal_names_the_field(task, args, field, sentence):
    with pytest.raises(WrongArgument) as refused:
        our_features().check(task, args, ALL)
    assert refused.value.field == field
    assert sentence in str(refused.value)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("task", "args", "permits", "setting"),
    [
        ("command", {"argv": ["ls"]}, NONE, "OSTINATO_ALLOW_COMMANDS"),
        ("command", {"script": "ls", "shell": True}, Permits(commands=True), "OSTINATO_ALLOW_SHELL"),
        ("python", {"function": "shop:run"}, NONE, "OSTINATO_PYTHON_PREFIXES"),
        ("http", {"url": "http://127.0.0.1:8000/"}, NONE, "OSTINATO_ALLOW_PRIVATE_ADDRESSES"),
        ("http", {"url": "http://localhost/{{ number }}"}, NONE, "OSTINATO_ALLOW_PRIVATE_ADDRESSES"),
    ],
)
def test_what_is_not_allowed_is_refused_with_the_setting_that_allows_it(task, args, permits, setting):
    our_features().check(task, args, ALL)
    with pytest.raises(WrongArgument, match=setting):
        our_features().check(task, args, permits)


def test_a_prefix_is_a_whole_module():
    assert is_below("shop", ["shop"])
    assert is_below("shop.x", ["shop"])
    assert not is_below("shopping", ["shop"])
    assert not is_below("", ["shop"])
