"""Finding, starting, awaiting and stopping servers; only processes that were started here are stopped."""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

PROJECT = Path(__file__).parents[3]
_PLACES = (
    PROJECT / ".servers" / "node_modules" / ".bin",
    PROJECT / ".servers" / "venv" / "bin",
    *(Path(place) for place in os.environ.get("PATH", "").split(os.pathsep) if place),
    Path("/usr/sbin"),
    Path("/usr/local/sbin"),
)
# What a system gives to outgoing connections lies above these ports: none of those can take one away.
_PORTS = range(20_000, 32_000)
_START_SECONDS = 60.0


class NotInstalled(Exception):
    """A program that a server needs is not there; tests of it are skipped."""


def find(program: str) -> str:
    """Return the path of a program, from `.servers/` or PATH.

    Raises:
        NotInstalled: it is in neither.
    """
    found = shutil.which(program, path=os.pathsep.join(map(str, _PLACES)))
    if found is None:
        raise NotInstalled(f"{program} is not installed: scripts/servers_needed.sh says how to install it")
    return found


def said_version(program: str, *arguments: str) -> str:
    """Return the first thing like a version that the program says of itself."""
    said = subprocess.run([find(program), *arguments], capture_output=True, text=True, check=True, timeout=60)
    found = re.search(r"\d+\.\d+[.\d]*", said.stdout + said.stderr)
    return found[0] if found else "unknown"


@contextmanager
def running(
    command: Sequence[str], log: Path, *, stop_seconds: float = 30.0, sockets: Sequence[int] = (), **environment: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server with its output in `log`, and stop it at the end; it also stops when this process is killed."""
    dies_along = shutil.which("setpriv")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*([dies_along, "--pdeathsig", "KILL"] if dies_along else []), *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            pass_fds=sockets,
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(stop_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def announced_port(process: subprocess.Popen[bytes], log: Path, pattern: str) -> int:
    """Wait until the server has said in its log on which port it listens, as the first group of `pattern`."""
    for _ in _waiting(process, log):
        found = re.search(pattern, log.read_text("utf-8", "replace"))
        if found is not None:
            return int(found[1])
    raise RuntimeError(f"{log.stem} does not say its port:\n{log.read_text('utf-8', 'replace')[-2000:]}")


def wait_for_port(process: subprocess.Popen[bytes], log: Path, port: int) -> None:
    """Wait until something listens on the port."""
    for _ in _waiting(process, log):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
    raise RuntimeError(f"{log.stem} does not answer:\n{log.read_text('utf-8', 'replace')[-2000:]}")


def _waiting(process: subprocess.Popen[bytes], log: Path) -> Iterator[None]:
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end:
        if process.poll() is not None:
            said = log.read_text("utf-8", "replace")[-2000:]
            raise RuntimeError(f"{log.stem} ended with status {process.returncode}:\n{said}")
        yield
        time.sleep(0.05)


@contextmanager
def reserved_port() -> Iterator[int]:
    """Reserve a port, for servers that cannot choose one: no other test process on this machine is given the same."""
    import fcntl

    folder = Path(tempfile.gettempdir(), "aiozarr-test-ports")
    folder.mkdir(exist_ok=True)
    for port in random.sample(_PORTS, 200):
        with contextlib.ExitStack() as stack:
            lock = stack.enter_context((folder / str(port)).open("wb"))
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            yield port
            return
    raise RuntimeError("no free port was found")
