"""No command prints a character of a stranger that a terminal obeys, and each line of `--json` is JSON."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

import aiozarr.sync
from tests.support.command_line import invoke, run_process

HOSTILE = "x\x1b]0;title\x07\x9b2J\u202e\u2066\u200f\ty\n!z"
"""Commands of terminals of 7 and 8 bits, marks of direction, a tab and a line break."""
OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]|^!z", re.MULTILINE)


def _write(directory: Path, document: dict[str, Any]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "zarr.json").write_text(json.dumps({"zarr_format": 3, **document}))


def make_hostile(root: Path) -> Path:
    """Create a group with arrays whose names, dimensions, attributes, codecs, types and chunks are hostile."""
    attributes = {HOSTILE: HOSTILE, "units": HOSTILE, "nan": float("nan"), "inf": [float("-inf")]}
    group = aiozarr.sync.create_group(root)
    values = np.arange(4, dtype="i4").reshape(2, 2)
    for name in ("a", HOSTILE):
        group.create_array(
            name, data=values, chunks=(1, 2), codecs=["crc32c"], dimension_names=[HOSTILE, f"{HOSTILE}2"]
        )
        document = json.loads((root / name / "zarr.json").read_text())
        _write(root / name, {**document, "attributes": attributes})
    group.create_array(f"a_{HOSTILE}", data=np.arange(3.0), dimension_names=[f"a_{HOSTILE}"])
    group.create_array("names", data=np.array([HOSTILE, "b"]), dimension_names=["names"])
    array = json.loads((root / "a" / "zarr.json").read_text())
    _write(root, {"node_type": "group", "attributes": attributes})
    _write(root / "bad", {"node_type": HOSTILE})
    _write(root / "codec", {**array, "codecs": [{"name": HOSTILE}]})
    _write(root / "type", {**array, "data_type": HOSTILE})
    (root / HOSTILE / "c" / "0" / "0").write_bytes(b"bad")
    (root / "a" / HOSTILE).write_bytes(b"foreign")
    return root


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    return make_hostile(tmp_path / "hostile.zarr")


COMMANDS: list[Callable[[Path, Path], list[object]]] = [
    lambda root, _: ["ls", root],
    lambda root, _: ["ls", "-l", root / "a"],
    lambda root, _: ["ls", "-r", root],
    lambda root, _: ["tree", root],
    lambda root, _: ["tree", root / HOSTILE],
    lambda root, _: ["info", "-a", root],
    lambda root, _: ["info", "-a", root / HOSTILE],
    *[lambda root, _, name=name: ["info", root / name] for name in ("bad", "codec", "type", f"none{HOSTILE}")],
    lambda root, _: ["ls", "-l", root / HOSTILE / "zarr.json"],
    lambda root, _: ["ls", "-l", root / HOSTILE / "none"],
    lambda root, out: ["mv", root / HOSTILE, out / HOSTILE],
    lambda root, out: ["mv", root / "a", root / HOSTILE],
    lambda root, _: ["validate", root],
    lambda root, _: ["verify", root],
    lambda root, _: ["plan", root / HOSTILE],
    lambda root, _: ["plan", "--probe", root / "a"],
    lambda root, _: ["cat", root / HOSTILE],
    lambda root, _: ["cat", root / "names"],
    lambda root, _: ["cat", root],
    lambda root, _: ["cat", "-s", "nope=1", root / "a"],
    lambda root, _: ["cat", "-s", f"a_{HOSTILE}=7..8", root / f"a_{HOSTILE}"],
    lambda root, _: ["cat", "-s", f"0={HOSTILE}", root / "names"],
    lambda root, _: ["consolidate", root],
    lambda root, out: ["cp", "-n", root, out / HOSTILE],
    lambda root, out: ["cp", "-v", root, out / HOSTILE],
    lambda root, out: ["cp", root / HOSTILE / "zarr.json", out / f"{HOSTILE}.json"],
    lambda root, out: ["sync", "-n", "--delete", root / "a", out / "b"],
    lambda root, out: ["diff", "-v", root, out],
    lambda root, out: ["convert", "-n", "--chunks", "2,2", root / HOSTILE, out / "c"],
    lambda root, out: ["convert", "--on-error", "continue", "--chunks", "2,2", root / HOSTILE, out / "d"],
    lambda root, _: ["clean", root],
    lambda root, _: ["rm", root / HOSTILE / "c"],
    lambda root, _: ["rm", "-r", "-n", root],
    lambda root, _: ["rm", "-r", root / "a" / HOSTILE],
    lambda root, _: ["rm", "-r", root / HOSTILE],
    lambda _, __: [HOSTILE],
    lambda _, __: [f"--{HOSTILE}"],
    lambda root, _: ["ls", f"--{HOSTILE}", root],
    lambda root, _: ["cat", "-s", HOSTILE, root / "a"],
]


def test_no_command_prints_controls_of_a_stranger(hostile: Path, tmp_path: Path) -> None:
    aiozarr.sync.create_group(tmp_path / "out").create_array("b", data=np.arange(2))
    for make in COMMANDS:
        for options in ((), ("--json",)):
            arguments = [*make(hostile, tmp_path / "out"), *options]
            result = invoke(*arguments)
            assert not isinstance(result.exception, Exception), arguments
            for text in (result.stdout, result.stderr):
                assert not OBEYED.search(text), (arguments, text)
            for line in result.stdout.splitlines() if options else ():
                json.loads(line, parse_constant=pytest.fail)


def test_headers_of_tables_have_names_without_controls(hostile: Path) -> None:
    header = invoke("cat", "--format", "csv", hostile / "a").stdout.splitlines()[0]
    assert header.startswith("x\\x1b]0;title")
    assert not OBEYED.search(header)


def test_tables_on_a_terminal_have_no_controls_and_files_have_the_values(hostile: Path, tmp_path: Path) -> None:
    terminal, its_end = pty.openpty()
    arguments = ["cat", "--format", "csv", hostile / "names"]
    done = subprocess.run([sys.executable, "-m", "aiozarr", *map(str, arguments)], stdout=its_end, check=True)
    os.close(its_end)
    shown = os.read(terminal, 10_000).decode().replace("\r\n", "\n")
    os.close(terminal)
    assert done.returncode == 0
    assert "title" in shown
    assert not OBEYED.search(shown.replace("\n!z", ""))
    assert invoke(*arguments, "-o", tmp_path / "names.csv").exit_code == 0
    assert HOSTILE in (tmp_path / "names.csv").read_text("utf-8")


class _Hostile(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        text = f"<Error><Code>{HOSTILE}</Code><Message>{HOSTILE}</Message></Error>".encode()
        self.send_response_only(403, "No\x9b2J")
        self.send_header("Content-Type", "application/xml")
        self.send_header("ETag", '"\x9b2J"')
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    do_HEAD = do_PUT = do_DELETE = do_GET  # noqa: N815  # names that the base class looks up

    def log_message(self, *_: object) -> None:
        pass


def test_text_of_a_server_has_no_controls(tmp_path: Path) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Hostile)
    Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    s3 = ["--endpoint-url", url, "--region", "r", "--no-sign-request"]
    try:
        for arguments in (
            ["info", f"{url}/a"],
            ["ls", "-l", f"{url}/a"],
            ["ls", "s3://bucket/a", *s3],
            ["info", "s3://bucket/a", *s3],
            ["cp", "s3://bucket/a", tmp_path / "out", *s3],
        ):
            result = invoke(*arguments)
            assert result.exit_code, arguments
            assert not OBEYED.search(result.stdout + result.stderr), (arguments, result.stderr)
    finally:
        server.shutdown()
        server.server_close()


def test_warnings_and_tracebacks_of_a_process_have_no_controls(hostile: Path) -> None:
    done = run_process("info", "-vv", hostile / "type")
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert not OBEYED.search(done.stderr.replace("\n!z", ""))
    program = (
        f"import warnings; from aiozarr.cli import program; program._escape_warnings(); warnings.warn({HOSTILE!r})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.startswith("aiozarr: x\\x1b]0;title")
    assert not OBEYED.search(done.stderr)
