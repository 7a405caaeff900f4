"""The file of --output."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aiozarr.cli.output import open_output


def test_a_file_keeps_its_mode_and_a_link_its_target(tmp_path: Path) -> None:
    target, link = tmp_path / "values", tmp_path / "link"
    target.write_bytes(b"old")
    target.chmod(0o640)
    link.symlink_to(target)
    with open_output(str(link)) as file:
        file.write(b"new")
        assert target.read_bytes() == b"old"
    assert target.read_bytes() == b"new"
    assert target.stat().st_mode & 0o777 == 0o640
    assert link.is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["link", "values"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("old", [b"old", None])
def test_an_error_leaves_the_file_as_it_was(error: type[BaseException], old: bytes | None, tmp_path: Path) -> None:
    target = tmp_path / "values"
    if old is not None:
        target.write_bytes(old)
    with pytest.raises(error), open_output(str(target)) as file:
        file.write(b"new")
        raise error
    assert os.listdir(tmp_path) == ([] if old is None else ["values"])
    assert old is None or target.read_bytes() == old


def test_a_pipe_is_written_itself(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with open_output(str(pipe)) as file:
        file.write(b"values")
    assert os.read(reader, 100) == b"values"
    os.close(reader)
    assert pipe.is_fifo()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_the_error_of_writing_names_the_file() -> None:
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"), open_output("/dev/full") as file:
        file.write(b"values")
