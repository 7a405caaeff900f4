"""Every Python snippet of the documentation runs.

The ```` ```python ```` blocks of a page run from top to bottom in one namespace, in an empty folder, with `await`
allowed at the top level. Comments above a block direct this:

- `<!-- not run: reason -->`: the block is only compiled.
- `<!-- prints -->` above a ```` ```text ```` block: what the block of code before it printed.
- `<!-- raises: Name -->`: the block ends with this exception.

The endpoint `http://127.0.0.1:9000`, with the bucket `weather`, stands for an S3 server: the tests put their own in its
place. Design notes are not run: they draw signatures.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from local_s3 import LocalS3

REPOSITORY = Path(__file__).parents[2]
PAGES = [
    REPOSITORY / "README.md",
    *sorted(page for page in (REPOSITORY / "docs").rglob("*.md") if page.parent.name != "design"),
]
ENDPOINT = "http://127.0.0.1:9000"
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


def snippets() -> list[Any]:
    pages = [page for page in PAGES if any(block.language == "python" for block in blocks_of(page.read_text("utf-8")))]
    return [pytest.param(page, id=str(page.relative_to(REPOSITORY))) for page in pages]


def run_block(block: Block, page: Path, names: dict[str, Any], runner: asyncio.Runner, endpoint: str) -> str:
    """Run one block and return what it printed. Line numbers in errors are those of the page."""
    source = "\n" * block.line + block.body.replace(ENDPOINT, endpoint)
    code = compile(source, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    printed = StringIO()
    if block.note.startswith("not run: "):
        return ""
    with redirect_stdout(printed):
        if code.co_flags & inspect.CO_COROUTINE:
            runner.run(_awaited(code, names))
        else:
            exec(code, names)
    return printed.getvalue()


async def _awaited(code: Any, names: dict[str, Any]) -> None:
    await eval(code, names)


@pytest.mark.parametrize("page", snippets())
def test_the_snippets_of_a_page_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, s3_server: LocalS3
) -> None:
    monkeypatch.chdir(tmp_path)
    s3_server.reset()
    s3_server.create_bucket("weather")
    names: dict[str, Any] = {"__name__": "__main__"}
    printed = ""
    with asyncio.Runner() as runner:
        for block in blocks_of(page.read_text("utf-8")):
            if block.language == "text":
                assert block.note != "prints" or printed.strip() == block.body.strip(), f"line {block.line}"
            elif block.note.startswith("raises: "):
                with pytest.raises(BaseException) as caught:
                    run_block(block, page, names, runner, s3_server.endpoint_url)
                assert caught.type.__name__ == block.note.removeprefix("raises: ")
            else:
                printed = run_block(block, page, names, runner, s3_server.endpoint_url)


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


def test_a_block_that_is_not_run_says_why() -> None:
    notes = [block.note for page in PAGES for block in blocks_of(page.read_text("utf-8")) if block.language == "python"]
    assert all(re.fullmatch(r"(not run: .{8,}|raises: \w+)?", note) for note in notes)
