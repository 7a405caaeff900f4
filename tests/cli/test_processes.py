"""The real executable: streams, signals, exit status, and what a process imports."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import pytest

import aiozarr.sync
from aiozarr.cli.command_group import COMMANDS
from tests.support.command_line import LIVENESS_SECONDS, environment, make_sample, run_process
from tests.support.servers.moto import LocalS3

AIOZARR = [sys.executable, "-m", "aiozarr"]


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sample store that no test changes."""
    return make_sample(tmp_path_factory.mktemp("sample") / "sample.zarr")


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An array of 900 small chunks, whose text does not fit into a pipe."""
    root = tmp_path_factory.mktemp("large") / "large.zarr"
    values = np.random.default_rng(7).integers(0, 1 << 30, (300, 300))
    aiozarr.sync.create_array(root, data=values, chunks=(10, 10), codecs=[])
    return root


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An array of 300 chunks: a copy of it is still under way when it is interrupted."""
    root = tmp_path_factory.mktemp("many") / "many.zarr"
    aiozarr.sync.create_array(root, data=np.arange(1, 3001), chunks=10, codecs=[])
    return root


def imported(*arguments: object) -> set[str]:
    """The top-level packages that a command imports, and the modules of the command line."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "aiozarr", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=True,
        timeout=LIVENESS_SECONDS,
    )
    names = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    return {name if name.startswith("aiozarr.cli") else name.partition(".")[0] for name in names}


COMMANDS_ON_A_SAMPLE = {
    "ls -r {sample}": (0, " air/c/0/0/0\n", ""),
    "tree {sample}": (0, "├── air (4, 6, 8) float32", ""),
    "info {sample}/air": (0, "shape            : (4, 6, 8)", ""),
    "cat -s 0,-30..30,0 {sample}/air": (0, "8.0\n16.0\n24.0\n32.0\n", ""),
    "plot -s 0 {sample}/air -o {new}/map.png": (0, "", "values of air"),
    "cp {sample}/air {new}/copy.zarr": (0, "", "9 objects (1 metadata document), "),
    "sync {sample} {new}/mirror.zarr": (0, "", "18 objects (5 metadata documents)"),
    "rm -r -n --json {sample}/lat": (0, '{"type": "total", "objects": 2, ', "would remove"),
    "diff {sample} {sample}/air": (1, "+ lat/c/0\n", ""),
    "verify {sample}": (0, "", "3 arrays, 13 objects decoded"),
    "validate {sample}": (0, "", "5 nodes: 0 errors"),
    "convert --chunks auto -s lat=-30..30 {sample} {new}/converted.zarr": (0, "", "3 arrays, 2 groups: 3 tasks"),
    "clean {sample}": (0, "", "found 0 leftovers"),
    "consolidate {sample}/lat": (1, "", "is an array, not a group"),
    "plan {sample}/air": (0, "8 chunks\n8 requests, at most ", ""),
    "mv {sample}/lat {new}/lat": (3, "", "are not in the same store; use cp and then rm -r"),
}
"""Exit status and parts of both outputs, by command line."""


def test_every_command_runs_as_a_process(sample: Path, tmp_path: Path) -> None:
    assert {command.partition(" ")[0] for command in COMMANDS_ON_A_SAMPLE} == set(COMMANDS)

    def run(command: str) -> subprocess.CompletedProcess[str]:
        return run_process(*[each.format(sample=sample, new=tmp_path) for each in command.split()])

    with ThreadPoolExecutor(2) as pool:
        ended = list(pool.map(run, COMMANDS_ON_A_SAMPLE))
    for (command, (code, output, talk)), done in zip(COMMANDS_ON_A_SAMPLE.items(), ended, strict=True):
        assert (done.returncode, "Traceback" in done.stderr) == (code, False), (command, done.stderr)
        assert output in done.stdout, (command, done.stdout)
        assert talk in done.stderr, (command, done.stderr)


def test_without_click_one_line_says_what_to_install() -> None:
    code = "import sys; sys.modules['click'] = None; from aiozarr.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert done.stderr == "aiozarr: the command line needs click and rich: pip install click rich\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_click_prints_the_completion_script_of_a_shell(shell: str) -> None:
    program = "import sys; sys.argv[0] = 'aiozarr'; from aiozarr.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(_AIOZARR_COMPLETE=f"{shell}_source"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert "_aiozarr_completion" in done.stdout


def test_help_imports_no_command_no_numpy_and_no_rich() -> None:
    found = imported("--help")
    assert not found & {"numpy", "rich", "asyncio", "anyio", "aiozarr.cli.copy_commands", "aiozarr.cli.output"}


def test_a_short_copy_imports_no_rich_and_no_plot(sample: Path, tmp_path: Path) -> None:
    assert not imported("cp", sample, tmp_path / "copy.zarr") & {"rich", "matplotlib", "aiozarr.cli.plot_command"}


def test_a_closed_pipe_ends_the_command_quietly(large: Path) -> None:
    process = subprocess.Popen([*AIOZARR, "cat", large], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.read(10)
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(LIVENESS_SECONDS) == 141
    process.stderr.close()


@pytest.mark.parametrize("variables", [{}, {"PYTHONUNBUFFERED": "1"}])
def test_all_bytes_reach_a_slow_reader(large: Path, variables: dict[str, str]) -> None:
    process = subprocess.Popen(
        [*AIOZARR, "cat", "-f", "raw", large], stdout=subprocess.PIPE, env=environment(**variables)
    )
    assert process.stdout is not None
    time.sleep(0.2)
    data = process.stdout.read()
    assert process.wait(LIVENESS_SECONDS) == 0
    assert len(data) == 300 * 300 * 8
    process.stdout.close()


@pytest.mark.parametrize("redirection", [">&-", "2>&-", "<&-"])
def test_a_closed_stream_is_no_error(redirection: str, sample: Path) -> None:
    command = f"exec '{sys.executable}' -m aiozarr ls -r '{sample}' {redirection}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, timeout=LIVENESS_SECONDS)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
@pytest.mark.parametrize("command", [["ls"], ["cat", "-f", "raw"]])
def test_a_full_disk_below_standard_output_is_an_error(command: list[str], large: Path) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*AIOZARR, *command, large], stdout=full, stderr=subprocess.PIPE, check=False, timeout=LIVENESS_SECONDS
        )
    assert done.returncode == 1
    assert b"No space left on device" in done.stderr
    assert b"Traceback" not in done.stderr


def limit_files() -> None:
    """Let files of this process grow to 100 kB only, as on a full disk."""
    resource = pytest.importorskip("resource")
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))


def test_a_file_that_cannot_grow_fails_the_copy_which_can_be_resumed(large: Path, tmp_path: Path) -> None:
    source, target = tmp_path / "source.zarr", tmp_path / "copy.zarr"
    aiozarr.sync.create_array(source, data=np.random.default_rng(0).random(100_000), chunks=50_000, codecs=[])
    done = run_process("cp", source, target, preexec_fn=limit_files)
    assert done.returncode == 1
    assert "File too large" in done.stderr
    assert not (target / "zarr.json").exists()
    listed = run_process("tree", target)
    assert (listed.returncode, listed.stdout) == (3, "")
    assert "an unfinished copy is stored there: the same copy with --resume continues it" in listed.stderr
    assert run_process("cp", "--resume", source, target).returncode == 0
    assert run_process("diff", "--download", source, target).returncode == 0

    (tmp_path / "values").write_bytes(b"old")
    done = run_process("cat", "-f", "raw", "-o", tmp_path / "values", large, preexec_fn=limit_files)
    assert (done.returncode, done.stderr) == (1, f"aiozarr: {tmp_path / 'values'}: File too large\n")
    assert (tmp_path / "values").read_bytes() == b"old"
    assert sorted(os.listdir(tmp_path)) == ["copy.zarr", "source.zarr", "values"]


def test_a_place_without_permission(sample: Path) -> None:
    with answering(403) as address:
        done = run_process("info", f"{address}/secret.zarr")
    assert done.returncode == 7
    assert "403" in done.stderr
    if sys.platform == "linux" and not os.access("/proc/sys/kernel/none", os.W_OK):
        done = run_process("cp", sample, "/sys/kernel/copy.zarr")
        assert done.returncode == 7, done.stderr


@contextmanager
def answering(status: int) -> Iterator[str]:
    """Run a web server that answers every request with this status."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_HEAD = do_GET  # noqa: N815  # the name that the server calls

        def log_message(self, format: str, *values: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def aws(server: LocalS3) -> dict[str, str]:
    """The environment that the tools of AWS read."""
    return environment(
        AWS_ENDPOINT_URL=server.endpoint_url,
        AWS_ACCESS_KEY_ID="local",
        AWS_SECRET_ACCESS_KEY="local-secret",
        AWS_REGION="us-east-1",
        AWS_EC2_METADATA_DISABLED="true",
    )


def test_a_copy_to_s3_shows_progress_on_a_terminal_and_resumes_after_ctrl_c(many: Path, s3_server: LocalS3) -> None:
    s3_server.create_bucket("command-line")
    target = "s3://command-line/many.zarr"
    terminal, its_end = pty.openpty()
    process = subprocess.Popen(
        [*AIOZARR, "cp", many, target, "--max-requests", "2"],
        stdout=subprocess.PIPE,
        stderr=its_end,
        env=aws(s3_server) | {"TERM": "xterm-256color", "COLUMNS": "140"},
    )
    os.close(its_end)
    shown = read_until(terminal, b"copying")
    process.send_signal(signal.SIGINT)
    shown += read_until(terminal, None)
    os.close(terminal)
    assert process.wait(LIVENESS_SECONDS) == 130, shown.decode()
    assert process.stdout is not None
    assert process.stdout.read() == b""
    process.stdout.close()
    assert b"copying" in shown
    assert b"interrupted; the same command with --resume continues" in shown
    assert b"Traceback" not in shown
    assert (
        run_process("rm", "-n", f"{target}/zarr.json", env=aws(s3_server)).returncode == 4
    )  # it does not look complete

    refused = run_process("cp", many, target, env=aws(s3_server))
    assert refused.returncode == 1
    assert "--resume" in refused.stderr
    done = run_process("cp", "--resume", "--json", many, target, env=aws(s3_server))
    assert done.returncode == 0, done.stderr
    assert run_process("diff", "--download", many, target, env=aws(s3_server)).returncode == 0


def read_until(terminal: int, mark: bytes | None) -> bytes:
    """Read a terminal until the mark appears; None: until its other end is closed."""
    data = b""
    end = time.monotonic() + LIVENESS_SECONDS
    while (mark is None or mark not in data) and time.monotonic() < end:
        try:
            part = os.read(terminal, 4096)
        except OSError:  # Linux: the other end is closed
            break
        if not part:
            break
        data += part
    return data


SIGNALLED = """
import signal, sys
from aiozarr.cli import command_group, copy_commands, program

def act(**_):
    with copy_commands.advising_resume():
        signal.raise_signal(getattr(signal, sys.argv[2]))
    print("not ended", flush=True)

sys.argv = ["aiozarr", "cp", sys.argv[1]]
command_group.CommandGroup.get_command = lambda *_: command_group.click.Command(
    "cp", params=[command_group.click.Argument(["name"])], callback=act
)
program.main()
"""


# The process ends by SIGHUP itself, which a shell reports as 129.
@pytest.mark.parametrize(("name", "status"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", -signal.SIGHUP)])
def test_a_signal_ends_a_command_with_the_advice_to_resume_unless_the_command_inherited_its_neglect(
    name: str, status: int
) -> None:
    ended = (status, "", "aiozarr: interrupted; the same command with --resume continues\n")
    for handler, expected in ((signal.SIG_DFL, ended), (signal.SIG_IGN, (0, "not ended\n", ""))):
        done = subprocess.run(
            [sys.executable, "-c", SIGNALLED, name],
            capture_output=True,
            text=True,
            check=False,
            timeout=LIVENESS_SECONDS,
            preexec_fn=lambda handler=handler: signal.signal(getattr(signal, name), handler),
        )
        assert (done.returncode, done.stdout, done.stderr) == expected


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_workers_end_with_a_parent_that_is_killed() -> None:
    program = textwrap.dedent("""
        import time
        from aiozarr.cli.convert_commands import _executor

        with _executor(2) as pool:
            pool.submit(time.sleep, 600), pool.submit(time.sleep, 600)
            time.sleep(600)
    """)
    process = subprocess.Popen([sys.executable, "-c", program], start_new_session=True)
    ended = time.monotonic() + LIVENESS_SECONDS
    try:
        while len(_session(process.pid)) < 4 and process.poll() is None and time.monotonic() < ended:
            time.sleep(0.01)  # until there are two workers, and multiprocessing's tracker of resources
        assert len(_session(process.pid)) == 4
    finally:
        process.kill()
    process.wait(LIVENESS_SECONDS)
    while _session(process.pid) and time.monotonic() < ended:
        time.sleep(0.01)
    assert _session(process.pid) == []


def _session(leader: int) -> list[str]:
    """The processes of a session."""
    found: list[str] = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state, _, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            if int(session) == leader and state != "Z":
                found.append(entry.name)
    return found


def test_a_deleted_working_directory_hinders_no_command_with_absolute_paths(sample: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy.zarr"
    aiozarr.sync.copy(sample, target)
    gone = tmp_path / "gone"
    gone.mkdir()
    program = "import os, sys; os.rmdir(os.getcwd()); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    for arguments, code, error in (
        (["info", target], 0, ""),
        (["info", "copy.zarr"], 1, "'copy.zarr' is relative, and the working directory has been deleted"),
        (["rm", "-r", target], 0, "removed everything"),
    ):
        gone.mkdir(exist_ok=True)
        done = subprocess.run(
            [sys.executable, "-c", program, "-m", "aiozarr", *map(str, arguments)],
            cwd=gone,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIVENESS_SECONDS,
        )
        assert done.returncode == code, done.stderr
        assert error in done.stderr
    assert not target.exists()


def test_without_arguments_the_help_is_printed_as_it_is() -> None:
    done = subprocess.run([sys.executable, "-m", "aiozarr"], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "\nCopy:\n  cp " in done.stderr
    assert "\\n" not in done.stderr
