"""Parts of a page of the documentation that runs of tests write."""

from __future__ import annotations

import re
from pathlib import Path

COMPATIBILITY = Path(__file__).parents[2] / "docs" / "reference" / "compatibility.md"


def write_part(page: Path, name: str, text: str) -> None:
    """Replace the part of `page` between `<!-- begin: name -->` and `<!-- end: name -->`."""
    begin, end = f"<!-- begin: {name} -->", f"<!-- end: {name} -->"
    part = re.compile(f"{begin}.*?{end}", re.DOTALL)
    old = page.read_text("utf-8")
    assert len(part.findall(old)) == 1, f"{page.name} needs the comments {begin} and {end}"
    page.write_text(part.sub(lambda _: f"{begin}\n\n{text.strip()}\n\n{end}", old), "utf-8")
