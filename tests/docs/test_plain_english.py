"""README, pages, public docstrings and messages avoid turns of phrase that no native speaker would use.

A machine finds only a few of them; `PATTERNS` lists those. A sentence that needs such words anyway is in `EXCEPTIONS`.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.test_public_names import MODULES

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")]
PAGES += sorted((ROOT / "docs").rglob("*.md"))

# A turn of phrase, by what to write instead.
PATTERNS = {
    "X is not a Y": r"(?<![Tt]here )\b(?:is|are|was|were|be) no (?!longer\b|more\b|less\b|later\b|one\b|fewer\b)[a-z`]",
    "again, or a verb with re-": r"\banew\b",
    "a noun instead of `what is ...`": (
        r"\b(?:of|by|in|for|to|from|with|than|and|or|only|all|but) what (?:is|are|was|were|has|have|it|they)\b"
    ),
    "through or with aiozarr": r"\b(?<!written )(?<!created )(?<!raised )by aiozarr\b(?!'s)",
    "requested": r"\basked for\b",
    "the verb that says what happens": r"\b(?:is|are|was|were|be) (?:asked|wanted|due)\b",
    "applies to, belongs to": r"\bgo(?:es)? with\b",
    "that many": r"\bso many\b",
    "also, except": r"\b[Bb]esides\b",
    "also, in the same way": r"\b[Ll]ikewise\b",
    "anyway": r"\ball the same\b",
    "works too": r"\b(?:does|do|serves) as well\b",
    "is not a": r"\b(?:is|are) none of\b",
    "instead of": r"\bin place of\b",
    "is": r"\b(?:stands|lies|lie) (?:in|on|at|below|above|beside|behind|there|between|next)\b",
    "the noun": r"\bthose of\b",
    "obtain": r"\bbe had\b",
    "while, in the meantime, or nothing": r"\b[Mm]eanwhile\b",
    "responds, response": r"\b(?:server|store|bucket|proxy)(?:'s)? answers?\b",
    "location": r"\bthe place (?:where|of)\b",
}
RULES = {advice: re.compile(pattern) for advice, pattern in PATTERNS.items()}
FENCE = re.compile(r"^( *)```.*?^\1```|<!--.*?-->|`[^`\n]+`", re.MULTILINE | re.DOTALL)

# Sentences that need the words anyway, by an excerpt, each with its reason.
EXCEPTIONS: dict[str, str] = {}


def findings(place: str, text: str) -> list[str]:
    """The turns of phrase in a text, each with its surroundings."""
    joined = re.sub(r"\s+", " ", FENCE.sub("`code`", text))
    found = [(advice, match) for advice, rule in RULES.items() for match in rule.finditer(joined)]
    excerpts = [(advice, joined[max(0, match.start() - 40) : match.end() + 40]) for advice, match in found]
    return [
        f"{place}: write {advice!r}: …{excerpt}…"
        for advice, excerpt in excerpts
        if not any(exception in excerpt for exception in EXCEPTIONS)
    ]


def docstrings(module: str) -> Iterator[tuple[str, str]]:
    """The docstrings of the public names of a module and of their members."""
    loaded = importlib.import_module(module)
    for name in getattr(loaded, "__all__", ()):
        value = getattr(loaded, name)
        yield f"{module}.{name}", inspect.getdoc(value) or ""
        if inspect.isclass(value):
            for member in [member for member in vars(value) if not member.startswith("_")]:
                yield f"{module}.{name}.{member}", inspect.getdoc(getattr(value, member, None)) or ""


def messages(path: Path) -> Iterator[tuple[str, str]]:
    """The texts of errors and warnings, and the help of commands, that a module has."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        is_call = isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("warn", "option", "command")
        if isinstance(node, ast.Raise) or is_call:
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield f"{path.relative_to(ROOT)}:{part.lineno}", part.value


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_are_in_plain_english(page: Path) -> None:
    assert findings(page.name, page.read_text("utf-8")) == []


@pytest.mark.parametrize("module", MODULES)
def test_public_docstrings_are_in_plain_english(module: str) -> None:
    assert [found for place, text in docstrings(module) for found in findings(place, text)] == []


def test_messages_are_in_plain_english() -> None:
    texts = [text for path in sorted((ROOT / "src").rglob("*.py")) for text in messages(path)]
    assert len(texts) > 500
    assert [found for place, text in texts for found in findings(place, text)] == []


def test_exceptions_are_still_needed() -> None:
    texts = " ".join(re.sub(r"\s+", " ", page.read_text("utf-8")) for page in PAGES)
    assert [excerpt for excerpt in EXCEPTIONS if excerpt not in texts] == []


def test_the_search_finds_a_foreign_sentence() -> None:
    assert findings("page", "A colon is no unit, and `x is no y` is code.") == [
        "page: write 'X is not a Y': …A colon is no unit, and `code` is code.…"
    ]
