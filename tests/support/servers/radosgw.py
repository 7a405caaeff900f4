"""Ceph's S3 gateway over a cluster of one monitor, one manager and one object server, which keeps all in memory."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from tests.support.servers.process import find, reserved_port, running, said_version
from tests.support.servers.s3 import S3Server

_CLUSTER = "11111111-2222-3333-4444-555555555555"
_DISK = "66666666-7777-8888-9999-000000000000"
_PROGRAMS = ("monmaptool", "ceph-mon", "ceph-mgr", "ceph-osd", "radosgw", "ceph", "radosgw-admin")

# Nobody proves who he is inside of the cluster: all of it is on the loopback interface.
_CONFIGURATION = """
[global]
fsid = {cluster}
mon host = v1:127.0.0.1:{mon_port}
mon initial members = a
public addr = 127.0.0.1
cluster addr = 127.0.0.1
auth cluster required = none
auth service required = none
auth client required = none
auth allow insecure global id reclaim = true
mon allow pool size one = true
mon data avail crit = 0
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 4
osd pool default pgp num = 4
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
osd objectstore = memstore
memstore device bytes = 2147483648
osd memory target = 939524096
mon data = @/mon
mgr data = @/mgr
osd data = @/osd
run dir = @/run
log file = @/log/$name.log
admin socket = @/run/$name.$pid.asok

[client.rgw]
rgw frontends = beast endpoint=127.0.0.1:{port}
rgw data = @/rgw
rgw gc max objs = 4
rgw override bucket index max shards = 1
"""


class _NotUp(RuntimeError):
    """A daemon did not start, or a command of it failed."""


@contextmanager
def radosgw(directory: Path) -> Iterator[S3Server]:
    """Start the four daemons in `directory` (some 15 seconds), and stop them at the end.

    Raises:
        NotInstalled: a program of Ceph is not there.
    """
    for program in _PROGRAMS:
        find(program)
    for attempt in ("first", "second"):
        try:
            with _cluster(directory / attempt) as server:
                yield server
            return
        except _NotUp:
            # A busy machine may let one daemon miss what another waits for; a second cluster owes nothing to the first.
            if attempt == "second":
                raise


@contextmanager
def _cluster(directory: Path) -> Iterator[S3Server]:
    directory.mkdir()
    for name in ("mon", "mgr", "osd", "rgw", "run", "log"):
        (directory / name).mkdir()
    with ExitStack() as stack:
        port, mon_port = stack.enter_context(reserved_port()), stack.enter_context(reserved_port())
        text = _CONFIGURATION.format(cluster=_CLUSTER, port=port, mon_port=mon_port).replace("@", str(directory))
        (directory / "ceph.conf").write_text(text)
        cluster = _Cluster(directory, stack)
        cluster.start(port, mon_port)
        yield S3Server("radosgw", said_version("radosgw", "--version"), f"http://127.0.0.1:{port}")


@dataclass(frozen=True)
class _Cluster:
    directory: Path
    stack: ExitStack

    def start(self, port: int, mon_port: int) -> None:
        map_ = str(self.directory / "monmap")
        address = f"[v1:127.0.0.1:{mon_port}]"
        self._run("monmaptool", "--create", "--clobber", "--fsid", _CLUSTER, "--addv", "a", address, map_, conf=False)
        self._run("ceph-mon", "--mkfs", "-i", "a", "--monmap", map_)
        self._serve("ceph-mon", "-i", "a", "-f")
        self._until("ceph", "-s")
        self._serve("ceph-mgr", "-i", "x", "-f")
        # Just after its start the monitor may still refuse this.
        self._until("ceph", "osd", "create", _DISK, "0")
        self._run("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", _DISK)
        self._serve("ceph-osd", "-i", "0", "-f")
        self._until("ceph", "osd", "stat", says="1 up")
        self._run("ceph", "osd", "crush", "add", "osd.0", "1.0", "root=default", "host=h")
        self._serve("radosgw", "-n", "client.rgw", "-f")
        self._wait_for_http(port)
        user = ("--uid", "t", "--display-name", "t", "--access-key", "AKtest", "--secret-key", "SKtest")
        self._run("radosgw-admin", "-n", "client.rgw", "user", "create", *user)

    def _serve(self, program: str, *arguments: str) -> None:
        command = [find(program), "-c", str(self.directory / "ceph.conf"), *arguments]
        self.stack.enter_context(running(command, self.directory / f"{program}.log"))

    def _run(self, program: str, *arguments: str, conf: bool = True) -> None:
        done = self._ask(program, *arguments, conf=conf)
        if done.returncode != 0:
            raise _NotUp(f"{program} {' '.join(arguments)}: {done.stderr[-2000:]}")

    def _until(self, program: str, *arguments: str, says: str = "") -> None:
        """Repeat a command until it succeeds and says so."""
        end = time.monotonic() + 60
        while True:
            done = self._ask(program, *arguments)
            if done.returncode == 0 and says in done.stdout:
                return
            if time.monotonic() >= end:
                raise _NotUp(f"{program} {' '.join(arguments)}: {done.stdout[-1000:]}{done.stderr[-1000:]}")
            time.sleep(0.5)

    def _ask(self, program: str, *arguments: str, conf: bool = True) -> subprocess.CompletedProcess[str]:
        command = [find(program), *(["-c", str(self.directory / "ceph.conf")] if conf else []), *arguments]
        try:
            return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
        except subprocess.TimeoutExpired:  # what has lost its monitor may wait for it for ever
            return subprocess.CompletedProcess(command, 1, "", "no answer within 30 s")

    def _wait_for_http(self, port: int) -> None:
        """The gateway makes its pools before it answers."""
        for _ in range(240):
            try:
                with urlopen(f"http://127.0.0.1:{port}", timeout=10):
                    return
            except (URLError, OSError):
                time.sleep(0.5)
        raise _NotUp("radosgw does not answer")
