"""Which addresses may be called."""

import pytest

from ostinato.core.addresses import check_url, is_callable, is_public
from ostinato.core.errors import Invalid

PUBLIC = """
    8.8.8.8 1.1.1.1 93.184.216.34 172.15.255.255 172.32.0.1 192.167.0.1 2606:4700::1111 2a00:1450:4001::1
    ::ffff:8.8.8.8 64:ff9b::8.8.8.8 2002:808:808::1
""".split()
PRIVATE = """
    127.0.0.1 127.255.255.254 10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 100.64.0.1 0.1.2.3 192.0.2.1 198.18.0.1
    198.51.100.1 203.0.113.1 240.0.0.1 255.255.255.255
    ::1 fd00::1 fc00::1 fec0::1 2001:db8::1 3fff::1 100::1 64:ff9b:1::1 5f00::1
    ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::127.0.0.1 ::10.0.0.1 64:ff9b::127.0.0.1 64:ff9b::a00:1
    2002:7f00:1:: 2002:a00:1::1 2002:c0a8:101::1 2001:0:a00:1::1
    2606:4700::5efe:10.0.0.1 2606:4700::200:5efe:127.0.0.1 fd00::1%eth0
""".split()
NEVER = """
    169.254.169.254 169.254.0.1 fe80::1 fe80::1%eth0 0.0.0.0 :: 224.0.0.1 239.255.255.255 ff02::1 ff0e::1
    ::ffff:169.254.169.254 ::ffff:0.0.0.0 64:ff9b::169.254.169.254 2002:a9fe:a9fe::1 ::169.254.169.254
""".split()


@pytest.mark.parametrize("address", PUBLIC)
def test_what_is_everybodys_may_be_called(address):
    assert is_public(address)
    assert is_callable(address, allow_private=False)
    assert is_callable(address, allow_private=True)


@pytest.mark.parametrize("address", PRIVATE)
def test_what_is_somebodys_own_is_called_only_where_that_is_allowed(address):
    assert not is_callable(address, allow_private=False)
    assert is_callable(address, allow_private=True)


@pytest.mark.parametrize("address", NEVER)
def test_metadata_and_groups_are_never_called(address):
    assert not is_callable(address, allow_private=False)
    assert not is_callable(address, allow_private=True)


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
    assert check_url(url, "url", allow_private=False) == url


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


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST.", "127.0.0.1", "[::1]", "10.1.2.3", "[::ffff:10.0.0.1]"]
)
def test_a_url_into_a_private_network_needs_leave(host):
    with pytest.raises(Invalid, match="OSTINATO_ALLOW_PRIVATE_ADDRESSES"):
        check_url(f"http://{host}:80/", "url", allow_private=False)
    assert check_url(f"http://{host}:80/", "url", allow_private=True)


def test_the_metadata_of_a_cloud_is_refused_in_any_case():
    with pytest.raises(Invalid, match="link-local") as refused:
        check_url("http://169.254.169.254/latest", "url", allow_private=True)
    assert "ALLOW_PRIVATE" not in str(refused.value)  # it is allowed already, and would not let it
