"""A Google Cloud Storage server on this machine: aiozarr's own fake, in a process of its own, on a free port."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def local_gcs(*buckets: str) -> Iterator[dict[str, str]]:
    """Start the server with these buckets and yield the options that reach it; it ends with this process at the latest.

    The server lives exactly as long as its standard input is open, so it ends with its parent, whatever ends that.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "aiozarr.testing.gcs_server", *buckets],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        url = process.stdout.readline().strip()
        if not url:
            raise RuntimeError("the server did not start")
        yield {"endpoint_url": url}
    finally:
        process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
