"""The server that arrays are read from: nginx where it can wait before its answers, else one in Python."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.server_status import STATUS, requests_of

REPOSITORY = Path(__file__).parents[1]
MODULES = tuple(Path("/usr/lib/nginx/modules", name) for name in ("ndk_http_module.so", "ngx_http_lua_module.so"))
STOP_SECONDS = 30.0

# Objects have paths of their own, directories none. A version is what nginx makes it: time and size.
NGINX = """
daemon off; worker_processes 1; pid {run}/nginx.pid; error_log {run}/error.log crit; {user} {modules}
worker_rlimit_nofile 8192;
events {{ worker_connections 4096; }}
http {{
  access_log off; etag on; default_type application/octet-stream; keepalive_requests 1000000; tcp_nodelay on;
  sendfile on; client_max_body_size 0; client_body_temp_path {run}; proxy_temp_path {run}; fastcgi_temp_path {run};
  uwsgi_temp_path {run}; scgi_temp_path {run};
  server {{
    listen 127.0.0.1:{port}; root {folder};
    location = {status} {{ stub_status; }}
    location / {{ {wait} dav_methods PUT DELETE; create_full_put_path on; {version} error_page 404 @missing; }}
    location @missing {{ default_type application/xml; return 404 "<Error><Code>NoSuchKey</Code></Error>"; }}
  }}
}}
"""
# Clients of S3 need the version of an object that they have put. A 404 with a web page would come from a proxy.
VERSION = """header_filter_by_lua_block {
  if ngx.req.get_method() == "PUT" then ngx.header["ETag"] = string.format('"%x"', ngx.now() * 1000) end
}"""


@dataclass(frozen=True)
class Server:
    """A running server: its name, and the URL of the folder that it serves."""

    name: str
    url: str


@contextmanager
def served(folder: Path, latency: float, *, python: bool = False) -> Iterator[Server]:
    """Serve `folder`, with `latency` seconds before the first byte of each answer.

    Args:
        folder: its files are objects; writes end there.
        latency: in seconds.
        python: take the server in Python in any case.
    """
    program = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    scripted = all([module.is_file() for module in MODULES])
    if python or program is None or (latency and not scripted):
        with _python(folder, latency) as server:
            yield server
    else:
        with _nginx(program, folder, latency, scripted=scripted) as server:
            yield server


@contextmanager
def _nginx(program: str, folder: Path, latency: float, *, scripted: bool) -> Iterator[Server]:
    # It takes over a socket that listens already, as from an older nginx: nobody else can have its port.
    with tempfile.TemporaryDirectory() as run, socket.create_server(("127.0.0.1", 0), backlog=4096) as listening:
        port = listening.getsockname()[1]
        text = NGINX.format(
            run=run,
            port=port,
            folder=folder.resolve(),
            status=STATUS,
            user="user root;" if os.geteuid() == 0 else "",
            modules=" ".join([f"load_module {module};" for module in MODULES]) if scripted else "",
            wait=f"access_by_lua_block {{ ngx.sleep({latency}) }}" if latency else "",
            version=VERSION if scripted else "",
        )
        Path(run, "nginx.conf").write_text(text, "utf-8")
        process = subprocess.Popen(
            [program, "-e", f"{run}/error.log", "-p", run, "-c", f"{run}/nginx.conf"],
            env={**os.environ, "NGINX": f"{listening.fileno()};"},
            pass_fds=[listening.fileno()],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        listening.close()
        url = f"http://127.0.0.1:{port}"
        try:
            _wait_for(process, url)
            yield Server(f"nginx, {latency * 1000:g} ms to the first byte", url)
        finally:
            process.terminate()
            process.wait(STOP_SECONDS)


@contextmanager
def _python(folder: Path, latency: float) -> Iterator[Server]:
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.python_server", str(folder), str(latency)],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stdin is not None
        url = process.stdout.readline().strip()
        if not url:
            raise RuntimeError("the server in Python did not start")
        try:
            yield Server(f"a server in Python, {latency * 1000:g} ms: it limits the fastest readers", url)
        finally:
            process.stdin.close()


def _wait_for(process: subprocess.Popen[bytes], url: str) -> None:
    end = time.monotonic() + STOP_SECONDS
    while True:
        try:
            requests_of(url)
        except OSError:
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError("nginx did not start") from None
            time.sleep(0.05)
        else:
            return
