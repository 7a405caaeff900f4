"""nginx as a server of files, also with delays and with errors in between."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.servers.process import find, running, said_version, wait_for_port

_MODULES = Path("/usr/lib/nginx/modules")
_LUA = ("ndk_http_module.so", "ngx_http_lua_module.so")

# Directories are not there for clients, as in an object store; without try_files they would be redirects.
_CONFIGURATION = """
daemon off; worker_processes 1; pid @/nginx.pid; error_log @/error.log warn;
{user} {modules}
events {{ worker_connections 1024; }}
http {{
  log_format keys '$request_method $uri $status $http_range';
  access_log @/access.log keys; etag on; default_type application/octet-stream; keepalive_requests 1000000;
  client_body_temp_path @/tmp; proxy_temp_path @/tmp; fastcgi_temp_path @/tmp;
  uwsgi_temp_path @/tmp; scgi_temp_path @/tmp;
  {shared}
  server {{
    listen 127.0.0.1:{port}; root @/data; location / {{ try_files $uri =404; }}
    {locations}
  }}
}}
"""
# Every third request is refused, whoever sends it.
_LOCATIONS = """
    location /slow/ { alias @/data/; access_by_lua_block { ngx.sleep(0.05) } }
    location /flaky/ { alias @/data/; access_by_lua_block {
      if ngx.shared.counts:incr("requests", 1, 0) % 3 == 0 then
        ngx.header["Retry-After"] = "0"; return ngx.exit(503)
      end } }
"""


@dataclass(frozen=True)
class Nginx:
    """A running nginx that serves the files below `root`.

    Attributes:
        url: of the files; where `scripted`, they are also below `/slow/`, and below `/flaky/`, where every third
            request is answered with 503 and Retry-After.
        version: of the server.
        scripted: whether its lua module is installed.
        log: a line for each request: method, path, status, range.
    """

    url: str
    root: Path
    version: str
    scripted: bool
    log: Path

    def put(self, key: str, data: bytes) -> None:
        """Place a file; its directory is made, and its time moves on, because nginx's ETag is time and size."""
        path = self.root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.stat().st_mtime if path.exists() else 0.0
        path.write_bytes(data)
        if path.stat().st_mtime - before < 1:
            os.utime(path, (before + 1, before + 1))

    def requests(self, below: str) -> list[str]:
        """Return the lines of the log for paths that start with `below`."""
        return [line for line in self.log.read_text("utf-8").splitlines() if line.split(" ", 2)[1].startswith(below)]


@contextmanager
def nginx(directory: Path) -> Iterator[Nginx]:
    """Start nginx in `directory`, and stop it at the end.

    Raises:
        NotInstalled: there is no nginx.
    """
    program = find("nginx")
    for name in ("data", "tmp"):
        (directory / name).mkdir()
    scripted = all((_MODULES / name).is_file() for name in _LUA)
    # It takes over a socket that listens already, as when one nginx succeeds another: its port cannot be taken.
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listening:
        port = listening.getsockname()[1]
        text = _CONFIGURATION.format(
            port=port,
            user="user root;" if os.geteuid() == 0 else "",
            modules="".join(f"load_module {_MODULES / name};" for name in _LUA) if scripted else "",
            shared="lua_shared_dict counts 64k;" if scripted else "",
            locations=_LOCATIONS if scripted else "",
        ).replace("@", str(directory))
        (directory / "nginx.conf").write_text(text)
        command = [program, "-e", str(directory / "error.log"), "-p", str(directory)]
        command += ["-c", str(directory / "nginx.conf")]
        log = directory / "nginx.log"
        inherited = f"{listening.fileno()};"
        with running(command, log, sockets=[listening.fileno()], NGINX=inherited) as process:
            listening.close()
            wait_for_port(process, log, port)
            yield Nginx(
                f"http://127.0.0.1:{port}",
                directory / "data",
                said_version("nginx", "-v"),
                scripted,
                directory / "access.log",
            )
