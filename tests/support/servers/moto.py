"""A real S3 server on this machine: moto, in a process of its own, on a free port."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from typing import IO
from urllib.request import Request, urlopen

# The server lives exactly as long as its standard input is open, so it ends with its parent, whatever ends that.
# Standard error goes away after the start: one line per request would fill any pipe.
_SERVER = """
import logging, os, signal, sys, threading
signal.signal(signal.SIGINT, signal.SIG_IGN)
from moto.s3.responses import S3Response
from moto.server import ThreadedMotoServer

# Requests change and read moto's objects one at a time. It looks at a condition, and stores a moment later: another
# thread's write between the two would be lost. It closes a replaced object, and a reader of it would get status 500.
turn = threading.RLock()

def in_turn(response):
    def answer(*args, **kwargs):
        with turn:
            return response(*args, **kwargs)
    return answer

# Both are called after the body has arrived: a slow upload holds no other request up.
for name in ("_key_response", "_bucket_response"):
    setattr(S3Response, name, in_turn(getattr(S3Response, name)))
logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.buffer.read()
os._exit(0)
"""


@dataclass(frozen=True)
class LocalS3:
    """A running server: its endpoint, and the options that reach it."""

    endpoint_url: str

    @property
    def version(self) -> str:
        """The version of moto."""
        return metadata.version("moto")

    @property
    def storage_options(self) -> dict[str, str]:
        """The storage options that reach it; moto accepts any key and secret."""
        return {"endpoint_url": self.endpoint_url, "key": "local", "secret": "local-secret", "region": "us-east-1"}

    def create_bucket(self, name: str) -> None:
        """Create a bucket; no error if it is there."""
        with urlopen(Request(f"{self.endpoint_url}/{name}", data=b"", method="PUT"), timeout=30):
            pass

    def reset(self) -> None:
        """Forget all buckets."""
        with urlopen(Request(f"{self.endpoint_url}/moto-api/reset", data=b"", method="POST"), timeout=30):
            pass


@contextmanager
def local_s3() -> Iterator[LocalS3]:
    """Start the server, wait until it answers, and stop it at the end, also after an error or Ctrl-C."""
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield LocalS3(f"http://127.0.0.1:{_port(process.stdout)}")
    finally:
        process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def _port(output: IO[bytes]) -> int:
    line = output.readline()
    if not line:
        remedy = f"{sys.executable} -m pip install 'moto[s3]' flask flask-cors"
        raise RuntimeError(f"moto's server did not start; try: {remedy}")
    return int(line)
