"""Hostile addresses, over HTTP and as databases of sources: nothing is called."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ostinato.core.addresses import EVERYWHERE, PUBLIC_ONLY, Egress
from ostinato.core.errors import Invalid, StoreUnavailable, Unreachable
from ostinato.features.sources.databases import Reach, resolved
from ostinato.features.sources.rules.databases import read_database
from ostinato.outgoing import Outgoing
from ostinato.store.database import Database, open_database

LOCAL = """
    127.0.0.1 127.0.0.2 127.1 127.0.1 2130706433 0x7f000001 0x7f.1 0177.0.0.1 017700000001 0 0.0.0.0 localhost
    LOCALHOST localhost. [::1] [0:0:0:0:0:0:0:1] [::] [::ffff:127.0.0.1] [::ffff:7f00:1] [::127.0.0.1]
    [64:ff9b::127.0.0.1] [64:ff9b:1::127.0.0.1] [2002:7f00:1::] [2001:0:7f00:1::1] [2606:4700::5efe:127.0.0.1]
""".split()
PRIVATE = """
    10.0.0.1 10.255.255.255 172.16.0.1 172.31.255.255 192.168.0.1 100.64.0.1 192.0.0.1 192.0.2.1 198.18.0.1
    198.51.100.1 203.0.113.1 240.0.0.1 192.88.99.1 167772161 0xa000001 [fc00::1] [fd12:3456::1] [fec0::1]
    [2001:db8::1] [3fff::1] [5f00::1] [100::1] [::ffff:10.0.0.1] [::ffff:192.168.0.1] [2002:c0a8:1::1] [2002:808:808::1]
""".split()
NEVER = """
    169.254.169.254 169.254.170.2 2852039166 0xa9fea9fe 192.0.0.192 168.63.129.16 100.100.100.200 224.0.0.1
    255.255.255.255 [fe80::1] [ff02::1] [fd00:ec2::254] [fd00:ec2::23] [fd20:ce::254] [::ffff:169.254.169.254]
    [::ffff:168.63.129.16] [64:ff9b::169.254.169.254] [64:ff9b:1::169.254.169.254] [2002:a9fe:a9fe::]
    [64:ff9b:1:a9fe:a9:fe00::] [2606:4700::5efe:169.254.169.254]
""".split()
HOSTILE = [(host, PUBLIC_ONLY) for host in LOCAL + PRIVATE + NEVER] + [(host, EVERYWHERE) for host in NEVER]


class Trap:
    """A listener on both loopback addresses that counts connections."""

    def __init__(self) -> None:
        self.caught = 0
        first = socket.create_server(("127.0.0.1", 0))
        self.port = first.getsockname()[1]
        self._listeners = [first]
        if socket.has_ipv6:
            self._listeners.append(socket.create_server(("::1", self.port), family=socket.AF_INET6))
        for each in self._listeners:
            threading.Thread(target=self._accept, args=(each,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                listener.accept()[0].close()
            except OSError:
                return
            self.caught += 1

    def close(self) -> None:
        for each in self._listeners:
            each.shutdown(socket.SHUT_RDWR)
            each.close()


@pytest.fixture(scope="module")
def trap() -> Iterator[Trap]:
    trap = Trap()
    yield trap
    assert trap.caught == 0
    trap.close()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Database]:
    database = open_database(f"sqlite:///{tmp_path}/own.db", durable=False)
    yield database
    database.close()


def test_there_are_enough_of_them():
    assert len({host for host, _ in HOSTILE}) >= 58


@pytest.mark.parametrize(("host", "egress"), HOSTILE)
def test_a_hostile_address_is_not_called_over_http(trap, host, egress):
    async def story():
        out = Outgoing(egress=egress)
        try:
            with pytest.raises(Unreachable) as refused:
                await out.call("GET", f"http://{host}:{trap.port}/", seconds=5)
        finally:
            await out.close()
        assert not refused.value.transient or "is not known" in str(refused.value)

    asyncio.run(story())


@pytest.mark.parametrize(("host", "egress"), HOSTILE)
def test_a_hostile_address_is_no_database_of_a_source(trap, own, host, egress):
    for url in (
        f"postgresql://ann@{host}:{trap.port}/x",
        f"postgresql:///x?host={host.strip('[]')}&port={trap.port}",
        f"postgresql://93.184.216.34,{host}:{trap.port}/x",
    ):
        with pytest.raises((Invalid, StoreUnavailable)) as refused, Reach(egress).open(url, own).read():
            pass
        assert (
            "must not lead" in str(refused.value)
            or " leads " in str(refused.value)
            or ("is not known" in str(refused.value))
        )


def test_a_name_is_resolved_and_checked_for_each_connection(own, trap, monkeypatch):
    meant = [["93.184.216.34"], ["93.184.216.34", "10.0.0.1"], ["127.0.0.1"]]

    def getaddrinfo(host, port, **_):
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in meant.pop(0)]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    server = read_database("postgresql://db.example.org:5433/x")
    assert resolved(server, PUBLIC_ONLY) == {
        "host": "db.example.org",
        "hostaddr": "93.184.216.34",
        "port": "5433",
    }
    with pytest.raises(Invalid, match=r"db\.example\.org leads into a private network"):
        resolved(server, PUBLIC_ONLY)
    with pytest.raises(Invalid, match="private network"), Reach().open(server.url, own).read():
        pass


def test_a_network_that_is_allowed_reaches_a_real_database(own, postgres_url):
    narrow = Reach(Egress.of(["127.0.0.0/8"]))
    database = narrow.open(postgres_url, own)
    try:
        assert database.now().year > 2000
    finally:
        database.close()


@pytest.mark.parametrize(
    "url",
    [
        "postgresql:///x",
        "postgresql:///x?host=/var/run/postgresql",
        "postgresql://%2Fvar%2Frun%2Fpostgresql/x",
        "postgresql:///x?host=@abstract",
        "postgresql://ann@/x",
        "postgresql://93.184.216.34,%2Ftmp/x",
    ],
)
def test_a_unix_socket_needs_on(url, own):
    with pytest.raises(Invalid, match="Unix sockets"):
        Reach().open(url, own)
    server = read_database(url)
    with pytest.raises(Invalid, match="Unix sockets need OSTINATO_ALLOW_PRIVATE_ADDRESSES=on"):
        server.check(Egress.of(["127.0.0.0/8"]))
    server.check(EVERYWHERE)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://h/x?hostaddr=127.0.0.1",
        "postgresql://h/x?service=other",
        "postgresql://h/x?passfile=/etc/passwd",
        "postgresql://h/x?sslkey=/etc/passwd",
        "postgresql://h/x?sslrootcert=/etc/passwd",
        "postgresql://h/x?options=-c%20search_path%3Dx",
        "postgresql://h/x?HOST=127.0.0.1",
        "postgresql://h/x?host",
        "postgresql://h/x?sslmode=maybe",
        "postgresql://h/x?connect_timeout=0",
        "postgresql://h/x?connect_timeout=11",
        "postgresql://h/x?connect_timeout=9999999",
        "postgresql://h:99999/x",
        "postgresql://h:0/x",
        "postgresql://h:1,2:3,4:5/x?port=1,2",
        "postgresql://a:b:c/x",
        "postgresql://u:p@q@h/x",
        "postgresql://h%00/x",
        "postgresql://h/x%0a",
        "postgresql://h /x",
        "postgresql://h/x#y",
        "postgresql://h%27/x",
        "postgresql:h",
        "host=127.0.0.1 dbname=x",
        "sqlite:///",
        "sqlite:///:memory:",
        "sqlite:///x.db?mode=memory",
        "sqlite://x.db",
        "mysql://h/x",
        "",
    ],
)
def test_a_url_that_asks_for_more_is_refused(url):
    with pytest.raises(Invalid) as refused:
        read_database(url)
    assert str(refused.value).startswith("database")
    assert "p@q" not in str(refused.value)


def test_a_url_says_no_more_than_its_values():
    url = "postgresql://ann:p%40ss@one:1,[2606:4700::1]:2/d%20b?sslmode=require&connect_timeout=5"
    server = read_database(url)
    assert server.hosts == (("one", "1"), ("2606:4700::1", "2"))
    assert server.others == {
        "user": "ann", "password": "p@ss", "dbname": "d b", "sslmode": "require", "connect_timeout": "5",
    }  # fmt: skip
    assert read_database(server.url) == server
    assert "p@ss" not in repr(server)


def test_the_name_of_a_database_is_no_second_url(own, trap):
    for dbname in (f"host=127.0.0.1 port={trap.port}", f"postgresql://127.0.0.1:{trap.port}/x"):
        server = read_database(f"postgresql://93.184.216.34/x?dbname={dbname.replace('=', '%3D')}")
        assert server.hosts == (("93.184.216.34", "5432"),)
        assert dict(server.others)["dbname"] == dbname


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "../outside.db",
        "inside/../../outside.db",
        "/proc/self/environ",
        "link.db",
        "folder/x.db",
        "own.db",
        "./own.db",
        "own.db-wal",
        "own.db-journal",
        "own.db.lock",
        "own.db-notify/x.db",
        "hard.db",
        "missing/x.db",
        "a" * 5000,
    ],
)
def test_a_file_outside_the_data_folder_or_of_our_own_is_refused(tmp_path, path):
    folder = tmp_path / "data"
    folder.mkdir()
    (tmp_path / "elsewhere").mkdir()
    own = open_database(f"sqlite:///{folder}/own.db", durable=False)
    with own.write():
        pass
    (folder / "link.db").symlink_to(tmp_path / "outside.db")
    (folder / "folder").symlink_to(tmp_path / "elsewhere")
    (folder / "hard.db").hardlink_to(folder / "own.db")
    before = sorted(each.name for each in tmp_path.rglob("*"))
    with pytest.raises(Invalid, match="database"), Reach().open(f"sqlite:///{path}", own).read():
        pass
    assert sorted(each.name for each in tmp_path.rglob("*")) == before
    own.close()


def test_a_file_is_found_in_the_data_folder(tmp_path, own):
    (tmp_path / "data").mkdir()
    for url in (f"sqlite:///{tmp_path}/data/x.db", "sqlite:///x.db"):
        database = Reach(folder=str(tmp_path / "data")).open(url, own)
        assert database.name == str(tmp_path / "data" / "x.db")
    assert Reach().open("sqlite:///x.db", own).name == str(tmp_path / "x.db")
    beside = f"{own.name}_of_others.db"  # has the name of our own file as its prefix
    assert Reach().open(f"sqlite:///{beside}", own).name == beside
