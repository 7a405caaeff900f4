"""Text for people: numbers of bytes, tables, and names in which terminals and notebooks find no commands."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

NameArgument: TypeAlias = Callable[[str, object], str]


def _as_keyword(name: str, value: object) -> str:
    return name if value is ... else f"{name}={value!r}"


_name_argument: NameArgument = _as_keyword


def argument(name: str, value: object = ...) -> str:
    """Return an argument as messages name it: `overwrite=True`, or `overwrite` without a value.

    Every message that advises an argument names it by this function, because a program may have another name for it.
    The command line has `--overwrite`, and says so by `name_arguments`.
    """
    return _name_argument(name, value)


def name_arguments(by: NameArgument) -> NameArgument:
    """Name the arguments in all messages of this process by a function, and return the one that did so before."""
    global _name_argument
    before, _name_argument = _name_argument, by
    return before


def readable_bytes(count: float) -> str:
    """Return a number of bytes in a binary unit, such as "2.0 KiB"."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"):
        if count < 1024 or unit == "EiB":
            break
        count /= 1024
    return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"


def format_bytes(count: int) -> str:
    """Return a number of bytes exactly and in a readable unit, such as "2048 B (2.0 KiB)"."""
    return f"{count} B" if count < 1024 else f"{count} B ({readable_bytes(count)})"


def format_count(count: int, noun: str) -> str:
    """Return a number of things, such as "1 array" or "2,000 arrays"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def format_seconds(seconds: float) -> str:
    """Return seconds in a readable unit, such as "3.2 ms"."""
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def format_table(facts: Iterable[tuple[str, str]]) -> str:
    """Return lines of names and values, the values below each other."""
    lines = [(printable(name), printable(text)) for name, text in facts]
    width = max(len(name) for name, _ in lines)
    return "\n".join(f"{name:<{width}} : {text}" for name, text in lines)


def printable(text: str) -> str:
    """Return `text` on one line, with control characters escaped, which a terminal would obey."""
    if text.isprintable():
        return text
    return "".join([c if c.isprintable() else c.encode("unicode_escape").decode() for c in text])


def clip(text: str, most: int = 200) -> str:
    """Shorten `text` to `most` characters for a message, because names and values of a document may be long."""
    return text if len(text) <= most else f"{text[:most]}…"


def shown(value: object) -> str:
    """Return a representation of a value of a document of at most 60 characters, for messages."""
    try:
        return clip(repr(value), 60)
    except ValueError:
        return "an integer of thousands of digits"  # which Python does not convert to text


def did_you_mean(name: object, known: Iterable[str], otherwise: str = "") -> str:
    """Return "did you mean 'codecs'?" for the nearest of the known names, or `otherwise` if none is similar.

    A name that contains the given one, as `merge_gap_bytes` contains "gap", is similar too.
    """
    from difflib import get_close_matches  # imported here because few names are wrong

    given, names = str(name)[:200], list(known)
    nearest = get_close_matches(given, names, n=1) or [each for each in names if len(given) > 2 and given in each]
    return f"did you mean {nearest[0]!r}?" if nearest else otherwise


def preformatted(text: str) -> str:
    """Return text as HTML that keeps its lines. A lone surrogate, which no page can hold, is escaped."""
    # Imported here because its table of entities takes longer to load than most modules.
    from html import escape

    return f"<pre>{escape(text.encode('utf-8', 'backslashreplace').decode())}</pre>"
