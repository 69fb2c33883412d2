"""Addresses that may be called, and those that never are."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from ostinato.core.addresses import EVERYWHERE, PUBLIC_ONLY, Egress, check_url
from ostinato.core.errors import Invalid

ROOT = Path(__file__).parents[2]

PUBLIC = """
    8.8.8.8 1.1.1.1 93.184.216.34 172.15.255.255 172.32.0.1 192.167.0.1 2606:4700::1111 2a00:1450:4001::1
    ::ffff:8.8.8.8 64:ff9b::8.8.8.8 168.63.129.15 192.0.1.1 100.128.0.1 2620:0:2d0:200::7
""".split()
PRIVATE = """
    127.0.0.1 127.255.255.254 10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 100.64.0.1 0.1.2.3 192.0.2.1 198.18.0.1
    198.51.100.1 203.0.113.1 240.0.0.1
    ::1 fd00::1 fc00::1 fec0::1 2001:db8::1 3fff::1 100::1 64:ff9b:1::1 5f00::1
    ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::127.0.0.1 ::10.0.0.1 64:ff9b::127.0.0.1 64:ff9b::a00:1
    2002:7f00:1:: 2002:a00:1::1 2002:c0a8:101::1 2002:808:808::1 2001:0:a00:1::1 64:ff9b:1:c0a8:1:100::
    192.0.0.9 192.88.99.1 2001:20::1 fd00:ec1::254 fd20:ce::253
    2606:4700::5efe:10.0.0.1 2606:4700::200:5efe:127.0.0.1 fd00::1%eth0
""".split()
NEVER = """
    255.255.255.255 192.0.0.192 168.63.129.16 100.100.100.200 fd00:ec2::254 fd00:ec2::23 fd20:ce::254
    ::ffff:168.63.129.16 64:ff9b::192.0.0.192 2002:a83f:8110:: ::100.100.100.200 2606:4700::5efe:100.100.100.200
    64:ff9b:1:a9fe:a9:fe00:: 64:ff9b:1:a9:fe:a9fe:: 64:ff9b:1:aa:a9:fea9:fe00:0 64:ff9b:1::169.254.169.254
    169.254.169.254 169.254.0.1 fe80::1 fe80::1%eth0 0.0.0.0 :: 224.0.0.1 239.255.255.255 ff02::1 ff0e::1
    ::ffff:169.254.169.254 ::ffff:0.0.0.0 64:ff9b::169.254.169.254 2002:a9fe:a9fe::1 ::169.254.169.254
""".split()


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_may_be_called(address):
    assert PUBLIC_ONLY.allows(address)
    assert EVERYWHERE.allows(address)


@pytest.mark.parametrize("address", PRIVATE)
def test_a_private_address_is_called_only_where_that_is_allowed(address):
    assert not PUBLIC_ONLY.allows(address)
    assert EVERYWHERE.allows(address)


@pytest.mark.parametrize("address", NEVER)
def test_metadata_services_and_groups_are_never_called(address):
    assert not PUBLIC_ONLY.allows(address)
    assert not EVERYWHERE.allows(address)
    assert not Egress.of([address.partition("%")[0]]).allows(address)


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("10.1.2.3", True),
        ("::ffff:10.1.2.3", True),
        ("64:ff9b::10.1.2.3", True),
        ("2606:4700::5efe:10.1.2.3", True),
        ("fd00:1::1", True),
        ("8.8.8.8", True),
        ("10.2.0.1", False),
        ("127.0.0.1", False),
        ("::1", False),
        ("2002:a01:203::1", False),
        ("::10.1.2.3", False),
        ("fd00:2::1", False),
    ],
)
def test_networks_can_be_allowed_one_by_one(address, allowed):
    assert Egress.of(["10.1.0.0/16", "fd00:1::/32"]).allows(address) is allowed


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_every_python_gives_the_same_answers(version):
    found = sorted(Path.home().joinpath(".pyenv/versions").glob(f"{version}.*/bin/python"))
    if not found:
        pytest.skip(f"There is no Python {version} here.")
    asked = [*PUBLIC, *PRIVATE, *NEVER]
    script = (
        "import json, sys, types\n"
        "package = types.ModuleType('ostinato'); package.__path__ = [sys.argv[1]]\n"
        "sys.modules['ostinato'] = package\n"
        "from ostinato.core.addresses import EVERYWHERE, PUBLIC_ONLY\n"
        "print(json.dumps([[PUBLIC_ONLY.allows(a), EVERYWHERE.allows(a)] for a in sys.argv[2:]]))"
    )
    answer = subprocess.run(
        [found[0], "-c", script, ROOT / "src/ostinato", *asked],
        capture_output=True,
        check=True,
        env={"PATH": os.environ["PATH"]},
    )
    ours = [[PUBLIC_ONLY.allows(each), EVERYWHERE.allows(each)] for each in asked]
    assert json.loads(answer.stdout) == ours


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org",
        "https://example.org:8443/a/b?c=d#e",
        "https://EXAMPLE.org/",
        "https://8.8.8.8/",
        "https://[2606:4700::1111]:443/x",
        "http://under_score.example.org/",
    ],
)
def test_urls_that_may_be_called(url):
    assert check_url(url, "url", PUBLIC_ONLY) == url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.org",
        "ftp://example.org",
        "file:///etc/passwd",
        "gopher://example.org",
        "javascript:alert(1)",
        "http://",
        "http:///path",
        "http://:80/",
        "http://example.org:99999/",
        "http://example.org:x/",
        "http://example.org:0/",
        "http://[::1",
        "http://[zz]/",
        "http://exa mple.org/",
        "http://example.org/\n",
        "http://example.org/\0",
        "http://exämple.org/",
        "http://ann:secret@example.org/",
        "http://ann@example.org/",
        "http://@example.org/",
        "http://example.org/" + "a" * 2048,
        "http://example.org\\@10.0.0.1/",
    ],
)
def test_urls_that_make_no_sense(url):
    with pytest.raises(Invalid) as refused:
        check_url(url, "url")
    assert str(refused.value).startswith("url ")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST.", "127.0.0.1", "[::1]", "10.1.2.3", "[::ffff:10.0.0.1]"])
def test_a_url_into_a_private_network_needs_leave(host):
    with pytest.raises(Invalid, match="OSTINATO_ALLOW_PRIVATE_ADDRESSES"):
        check_url(f"http://{host}:80/", "url", PUBLIC_ONLY)
    assert check_url(f"http://{host}:80/", "url", EVERYWHERE)


@pytest.mark.parametrize("host", ["169.254.169.254", "168.63.129.16", "[fd00:ec2::254]"])
def test_the_metadata_of_a_cloud_is_refused_in_any_case(host):
    with pytest.raises(Invalid, match="metadata service") as refused:
        check_url(f"http://{host}/latest", "url", EVERYWHERE)
    assert "ALLOW_PRIVATE" not in str(refused.value)  # it is allowed already, and would not let it
