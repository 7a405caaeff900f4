"""s3rver, which answers suffix ranges with other bytes than those asked for, and ignores all conditions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.servers.process import announced_port, find, running, said_version
from tests.support.servers.s3 import S3Server


@contextmanager
def s3rver(directory: Path) -> Iterator[S3Server]:
    """Start s3rver over a folder in `directory`, and stop it at the end.

    Raises:
        NotInstalled: there is no s3rver.
    """
    data, log = directory / "data", directory / "s3rver.log"
    data.mkdir()
    command = [find("s3rver"), "-d", str(data), "-a", "127.0.0.1", "-p", "0", "--silent"]
    with running(command, log) as process:
        port = announced_port(process, log, r"listening on 127\.0\.0\.1:(\d+)")
        version = said_version("s3rver", "--version")
        yield S3Server("s3rver", version, f"http://127.0.0.1:{port}", "S3RVER", "S3RVER")
