"""Every Python snippet of the documentation runs.

The ```` ```python ```` blocks of a page run from top to bottom in one namespace, in an empty folder, with `await`
allowed at the top level. Comments above a block direct this:

- `<!-- not run: reason -->`: the block is only compiled. `make test-ecosystem` runs it if the reason ends with that.
- `<!-- script -->`: the block is a program. It is written to a file in that folder and run by the interpreter, and its
  processes start with `spawn`, as on macOS. Each costs the start of a process, so a page has few of them.
- `<!-- prints -->` above a ```` ```text ```` block: the output of the block of code before it.
- `<!-- raises: Name -->`: the block ends with this exception.
- `<!-- needs: module -->`: the page is skipped where this module is not installed; the group `test` has all of them.

The tests replace `http://127.0.0.1:9000`, with the bucket `weather`, by the address of an S3 server, and
`http://127.0.0.1:4443` by the address of a GCS emulator. Design notes are not run.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import subprocess
import sys
import tomllib
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.support.servers.gcs_server import GcsServer
from tests.support.servers.moto import LocalS3

REPOSITORY = Path(__file__).parents[2]
PAGES = [
    REPOSITORY / "README.md",
    *sorted(page for page in (REPOSITORY / "docs").rglob("*.md") if "docs/design/" not in page.as_posix()),
]
S3_ENDPOINT = "http://127.0.0.1:9000"
GCS_ENDPOINT = "http://127.0.0.1:4443"
IN_LANE = "make test-ecosystem runs it"
SPAWN = "import multiprocessing; multiprocessing.set_start_method('spawn', force=True)"
SCRIPT_SECONDS = 120  # a script that hangs fails its own test, not the whole run
BLOCK = re.compile(
    r"^(?P<indent> *)(?:<!-- (?P<note>[^\n]*?) -->\n\s*)?"
    r"```(?P<language>python|text)[^\n]*\n(?P<body>.*?)^(?P=indent)```",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """One fenced block of a page, with the line it starts in and the comment above it."""

    line: int
    language: str
    note: str
    body: str


def blocks_of(text: str) -> list[Block]:
    """The blocks of a page, in order."""
    return [
        Block(
            line=text.count("\n", 0, match.start("body")),
            language=match["language"],
            note=match["note"] or "",
            body=dedent(match["body"]),
        )
        for match in BLOCK.finditer(text)
    ]


def modules_needed(blocks: list[Block]) -> list[str]:
    """The modules that a page imports and that aiozarr does not depend on."""
    return [block.note.removeprefix("needs: ") for block in blocks if block.note.startswith("needs: ")]


def snippets() -> list[Any]:
    pages = [page for page in PAGES if any(block.language == "python" for block in blocks_of(page.read_text("utf-8")))]
    return [pytest.param(page, id=str(page.relative_to(REPOSITORY))) for page in pages]


def run_block(
    block: Block,
    page: Path,
    names: dict[str, Any],
    runner: asyncio.Runner,
    endpoints: dict[str, str],
    *,
    in_lane: bool = False,
) -> str | None:
    """Run one block and return what it printed, or None if it is not run. Line numbers in errors are the page's."""
    head = SPAWN if block.note == "script" and "ProcessPoolExecutor" in block.body else ""
    source = head + "\n" * block.line + block.body
    for documented, actual in endpoints.items():
        source = source.replace(documented, actual)
    code = compile(source, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    printed = StringIO()
    if block.note.startswith("not run: ") and not (in_lane and block.note.endswith(IN_LANE)):
        return None
    if block.note == "script":
        return run_script(source, Path(f"{page.stem}-{block.line}.py"))
    with redirect_stdout(printed):
        if code.co_flags & inspect.CO_COROUTINE:
            runner.run(_awaited(code, names))
        else:
            exec(code, names)
    return printed.getvalue()


def run_script(source: str, path: Path) -> str:
    """Write a program to a file, run it by this interpreter, and return what it printed."""
    path.write_text(source, "utf-8")
    done = subprocess.run(
        [sys.executable, path.name], capture_output=True, text=True, timeout=SCRIPT_SECONDS, check=False
    )
    assert done.returncode == 0, f"{path.name} failed:\n{done.stderr}"
    return done.stdout


async def _awaited(code: Any, names: dict[str, Any]) -> None:
    await eval(code, names)


# zarr-python says so of metadata that xarray consolidates by default.
@pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part")
@pytest.mark.parametrize("page", snippets())
def test_the_snippets_of_a_page_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, s3_server: LocalS3
) -> None:
    monkeypatch.chdir(tmp_path)
    s3_server.reset()
    s3_server.create_bucket("weather")
    try:
        with GcsServer("weather") as gcs_server:
            run_page(page, {S3_ENDPOINT: s3_server.endpoint_url, GCS_ENDPOINT: gcs_server.url})
    finally:
        forget_zarr_python()


def forget_zarr_python() -> None:
    """Undo `enable()` and its counts, which hold for the process and so for later pages."""
    if "zarr" in sys.modules:
        sys.modules["zarr"].config.reset()
    if (pipeline := sys.modules.get("aiozarr.integrations.zarr.chunk_pipeline")) is not None:
        pipeline._counts.clear()
        pipeline._fallbacks.clear()


def run_page(page: Path, endpoints: dict[str, str], *, in_lane: bool = False) -> None:
    """Run all blocks of a page in the current folder, and compare what they print and raise.

    Args:
        page: the page.
        endpoints: addresses of servers, by the addresses that the page names.
        in_lane: run the blocks too that only `make test-ecosystem` runs.
    """
    blocks = blocks_of(page.read_text("utf-8"))
    for module in modules_needed(blocks):
        pytest.importorskip(module)
    names: dict[str, Any] = {"__name__": "__main__"}
    printed: str | None = None
    with asyncio.Runner() as runner:
        for block in blocks:
            if block.language == "text":
                if block.note == "prints" and printed is not None:
                    message = f"correct the printed text below line {block.line} of {page.name}"
                    assert printed.strip() == block.body.strip(), message
            elif block.note.startswith("raises: "):
                with pytest.raises(BaseException) as caught:
                    run_block(block, page, names, runner, endpoints)
                message = f"correct the comment `raises:` above line {block.line} of {page.name}"
                assert caught.type.__name__ == block.note.removeprefix("raises: "), message
            else:
                printed = run_block(block, page, names, runner, endpoints, in_lane=in_lane)


def test_blocks_are_found_with_their_comments() -> None:
    text = (
        "# Page\n\n```python\na = 1\nprint(a)\n```\n\n"
        "<!-- prints -->\n```text\n1\n```\n\n    ```python\n    b = 2\n    ```\n"
    )
    assert [(block.line, block.language, block.note, block.body) for block in blocks_of(text)] == [
        (3, "python", "", "a = 1\nprint(a)\n"),
        (9, "text", "prints", "1\n"),
        (13, "python", "", "b = 2\n"),
    ]


def test_a_script_runs_as_a_file_whose_processes_are_spawned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    program = (
        "import multiprocessing\nfrom concurrent.futures import ProcessPoolExecutor\n\n"
        "if __name__ == '__main__':\n    with ProcessPoolExecutor(1) as pool:\n"
        "        print(pool.submit(multiprocessing.get_start_method).result())\n"
    )
    page.write_text(f"<!-- script -->\n```python\n{program}```\n\n<!-- prints -->\n```text\nspawn\n```\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    run_page(page, {})
    without_guard = program.replace("if __name__ == '__main__':", "if True:")
    page.write_text(f"<!-- script -->\n```python\n{without_guard}```\n", "utf-8")
    with pytest.raises(AssertionError, match="BrokenProcessPool"):
        run_page(page, {})


def test_a_block_that_is_not_run_says_why() -> None:
    notes = [block.note for page in PAGES for block in blocks_of(page.read_text("utf-8")) if block.language == "python"]
    wrong = [note for note in notes if not re.fullmatch(r"(not run: .{8,}|raises: \w+|needs: [\w.]+|script)?", note)]
    assert not wrong, "write comments as the docstring of this module says, with a reason where a block is not run"


def test_modules_that_pages_need_are_installed_with_the_tests() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))
    groups, extras = project["dependency-groups"], project["project"]["optional-dependencies"]
    needed = {module for page in PAGES for module in modules_needed(blocks_of(page.read_text("utf-8")))}
    needed = {module.replace(".", "-") for module in needed}  # opentelemetry.sdk is in opentelemetry-sdk
    listed = [*groups["test"], *groups["demo"], *(name for names in extras.values() for name in names)]
    names = [name for name in listed if isinstance(name, str)]
    missing = needed - {re.split(r"[>=\[]", name)[0] for name in names}
    assert not missing, "add these to the dependency group `test` in pyproject.toml"


def test_links_of_the_package_page_lead_nowhere_inside_the_repository() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))
    text = (REPOSITORY / "README.md").read_text("utf-8")
    for substitution in project["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(substitution["pattern"], substitution["replacement"], text)
    found = re.findall(r"\]\((?!https://)[^)]*\)", text)
    assert found == [], "PyPI has no such files: cover these links by a substitution in pyproject.toml"


def test_links_of_the_readme_lead_to_files() -> None:
    links = re.findall(r"\]\((?!https://)([^)#]*)[^)]*\)", (REPOSITORY / "README.md").read_text("utf-8"))
    assert [link for link in links if not (REPOSITORY / link).is_file()] == [], "correct the links of README.md"
