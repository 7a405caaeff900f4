"""rclone's S3 server, which answers ranges with status 200, refuses long suffixes, and ignores all conditions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.servers.process import announced_port, find, running, said_version
from tests.support.servers.s3 import S3Server


@contextmanager
def rclone(directory: Path) -> Iterator[S3Server]:
    """Start `rclone serve s3` over a folder in `directory`, and stop it at the end.

    Raises:
        NotInstalled: there is no rclone.
    """
    data, log = directory / "data", directory / "rclone.log"
    data.mkdir()
    command = [find("rclone"), "serve", "s3", "--addr", "127.0.0.1:0", "--auth-key", "AKtest,SKtest"]
    command += ["--config", str(directory / "none.conf"), "--cache-dir", str(directory / "cache"), str(data)]
    with running(command, log) as process:
        port = announced_port(process, log, r"Starting s3 server on \[http://127\.0\.0\.1:(\d+)/")
        yield S3Server("rclone serve s3", said_version("rclone", "version"), f"http://127.0.0.1:{port}")
