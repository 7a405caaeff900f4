"""Servers of other makers for the tests, each a process of its own on a free port of this machine."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin")

# Directories are not there for clients, as in an object store; without try_files they would be redirects.
_CONFIGURATION = """
daemon off; worker_processes 1; pid @/nginx.pid; error_log @/error.log warn;
{user}
events {{ worker_connections 1024; }}
http {{
  access_log off; etag on; default_type application/octet-stream; keepalive_requests 1000000;
  client_body_temp_path @/tmp; proxy_temp_path @/tmp; fastcgi_temp_path @/tmp;
  uwsgi_temp_path @/tmp; scgi_temp_path @/tmp;
  server {{ listen 127.0.0.1:{port}; root @/data; location / {{ try_files $uri =404; }} }}
}}
"""


@dataclass(frozen=True)
class Nginx:
    """A running nginx that serves the files below `root`."""

    url: str
    root: Path

    def put(self, key: str, data: bytes) -> None:
        """Place a file; its directory is made, and its time moves on, because nginx's ETag is time and size."""
        path = self.root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.stat().st_mtime if path.exists() else 0.0
        path.write_bytes(data)
        if path.stat().st_mtime - before < 1:
            os.utime(path, (before + 1, before + 1))


@contextmanager
def nginx(directory: Path) -> Iterator[Nginx]:
    """Start nginx in `directory`, and stop it at the end."""
    assert NGINX is not None
    for name in ("data", "tmp"):
        (directory / name).mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    text = _CONFIGURATION.format(port=port, user="user root;" if os.geteuid() == 0 else "").replace("@", str(directory))
    (directory / "nginx.conf").write_text(text)
    process = subprocess.Popen(
        [NGINX, "-e", str(directory / "error.log"), "-p", str(directory), "-c", str(directory / "nginx.conf")]
    )
    try:
        _wait_for(port, process)
        yield Nginx(f"http://127.0.0.1:{port}", directory / "data")
    finally:
        process.terminate()
        process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(200):
        if process.poll() is not None:
            raise RuntimeError(f"nginx ended with status {process.returncode}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError("nginx does not answer")
