"""Mutations of JSON, XML, text and bytes. Each function draws from the given `Random` only, so a seed repeats it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from random import Random
from typing import Any

NUMBERS: list[Any] = [
    *(0, 1, -1, 2, 3, 7, 255, 256, 65_535, 65_536, True, False, 0.5, -0.0, 16.0, 1e19, 1e308, 5e-324, 10**30, 10**400),
    *(2**31 - 1, 2**31, 2**32, 2**40, 2**53 + 1, 2**61, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**70, -(2**63)),
]
WORDS: list[Any] = [
    *(
        "",
        "x",
        ".",
        "..",
        "/",
        "//",
        "a/../b",
        "../../etc/passwd",
        "\0",
        "\ud800",
        "a\udfffb",
        "\u202e",
        "é",
        "e\u0301",
    ),
    *(
        "NaN",
        "Infinity",
        "-Infinity",
        "0x7fc00001",
        "0x",
        "0b1",
        "null",
        "true",
        "1",
        "-1",
        "1e999",
        " ",
        "\r\n",
        "%00",
    ),
    *("int8", "uint64", "float32", "complex128", "bool", "string", "r8", "r12", "r34359738368", "|O", "<i4", ">U3"),
    *("|S2147483647", "<M8[ns]", "|b1", "<f2", "bytes", "crc32c", "gzip", "zstd", "blosc", "transpose", "pickle"),
    *("sharding_indexed", "regular", "rectilinear", "default", "v2", "start", "end", "C", "F", "A" * 3000, "é" * 700),
]


class Members(list[tuple[str, Any]]):
    """The members of a JSON object, where a name may occur twice."""


class Raw(str):
    """Text that takes the place of a JSON value."""

    __slots__ = ()


RAW = [
    *(Raw(text) for text in ("NaN", "-Infinity", "1e999", "-", "01", "tru", "'x'", "", "1,", "9" * 5000, '"\\ud800"')),
    *(Raw("[" * depth + "]" * depth) for depth in (150, 900, 100_000)),
    *(Raw('{"a":' * depth + "1" + "}" * depth) for depth in (150, 900, 100_000)),
]


def decoded(text: bytes | str) -> Any:
    """Parse JSON, with `Members` for objects."""
    return json.loads(text, object_pairs_hook=Members)


def encoded(value: Any) -> str:
    """Return the JSON of a value that may contain `Members` and `Raw`."""
    if isinstance(value, Raw):
        return value
    if isinstance(value, Members):
        return "{" + ", ".join(f"{json.dumps(name)}: {encoded(each)}" for name, each in value) + "}"
    if isinstance(value, dict):
        return encoded(Members(value.items()))
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(encoded, value)) + "]"
    return json.dumps(value)


def plain(value: Any) -> Any:
    """Return the value as Python's own objects, where the last of equal names wins and `Raw` is text."""
    if isinstance(value, Members):
        return {name: plain(each) for name, each in value}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return str(value) if isinstance(value, Raw) else value


class JsonMutator:
    """Changes JSON values, and takes values of the same member from other documents.

    Args:
        documents: parsed documents, whose members replace those of others.
    """

    def __init__(self, documents: Iterable[Any]) -> None:
        self._values: dict[str, list[Any]] = {}
        for document in documents:
            self._collect(document)

    def _collect(self, value: Any) -> None:
        for name, each in value if isinstance(value, Members) else ():
            self._values.setdefault(name, []).append(each)
        for each in _children(value):
            self._collect(each)

    def changed(self, rng: Random, value: Any, count: int | None = None) -> Any:
        """Return a copy of a value with some changes."""
        value = _copied(value)
        for _ in range(count or rng.choice([1, 1, 1, 2, 2, 3, 5])):
            value = self._change(rng, value)
        return value

    def text(self, rng: Random, value: Any) -> bytes:
        """Return the changed JSON of a value, and seldom something that is no JSON."""
        text = encoded(self.changed(rng, value)).encode("utf-8", "surrogatepass")
        match rng.randrange(30):
            case 0:
                return mutated_bytes(rng, text)
            case 1:
                return rng.choice(
                    [b"\xef\xbb\xbf" + text, text.decode("utf-8", "replace").encode("utf-16"), text + b"\0"]
                )
            case 2:
                return text[: rng.randrange(len(text) + 1)]
            case _:
                return text

    def _change(self, rng: Random, value: Any) -> Any:
        places = list(_places(value))
        if not places or rng.randrange(40) == 0:
            return self._replacement(rng, "", value)
        parent, index = rng.choice(places)
        name, child = parent[index] if isinstance(parent, Members) else ("", parent[index])
        match rng.randrange(10):
            case 0:
                del parent[index]
            case 1:
                parent.insert(rng.randrange(len(parent) + 1), parent[index])
            case 2 if isinstance(parent, Members):
                other = rng.choice([*self._values, *(word for word in WORDS if isinstance(word, str))] or ["x"])
                parent[index] = (other, child)
            case 3 if isinstance(parent, Members):
                other = rng.choice([*self._values] or ["x"])
                parent.append((other, rng.choice(self._values.get(other, NUMBERS))))
            case 4 if isinstance(child, list) and len(child) > 1:
                rng.shuffle(child)
            case _:
                replaced = self._replacement(rng, name, child)
                parent[index] = (name, replaced) if isinstance(parent, Members) else replaced
        return value

    def _replacement(self, rng: Random, name: str, value: Any) -> Any:
        kind = rng.randrange(12)
        if kind < 3 and name in self._values:
            return _copied(rng.choice(self._values[name]))
        if kind < 5 and isinstance(value, int | float) and not isinstance(value, bool):
            # Most extreme numbers are refused at once: neighbours of the honest one get further.
            if isinstance(value, float):
                return value * rng.choice([-1, 2, 1e10])
            return rng.choice([value + 1, value - 1, -value, value * 2, value << 20, float(value % 10**9), str(value)])
        if kind < 6 and isinstance(value, str):
            return mutated_text(rng, value)
        if kind == 6:
            return [value] * rng.choice([0, 1, 2, 40]) if rng.randrange(4) else Members([("name", value)])
        if kind == 7:
            return rng.choice(RAW)
        if kind == 8:
            return rng.choice([None, [], Members(), [[]], [None], [Members()]])
        if kind == 9:
            return rng.choice(WORDS)
        return rng.choice(NUMBERS)


def _children(value: Any) -> list[Any]:
    if isinstance(value, Members):
        return [each for _, each in value]
    return list(value) if isinstance(value, list) else []


def _places(value: Any) -> Iterable[tuple[list[Any], int]]:
    for index, child in enumerate(_children(value)):
        yield value, index
        yield from _places(child)


def _copied(value: Any) -> Any:
    if isinstance(value, Members):
        return Members((name, _copied(each)) for name, each in value)
    return [_copied(each) for each in value] if isinstance(value, list) else value


# --- bytes -----------------------------------------------------------------------------------------------------------

_LENGTHS = [
    0,
    1,
    2,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0xFFFF,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**40,
    2**62,
    2**63,
    2**64 - 16,
    2**64 - 1,
]


def mutated_bytes(rng: Random, data: bytes, others: Iterable[bytes] = (), count: int | None = None) -> bytes:
    """Return changed bytes: flips, cuts, insertions, repetitions, numbers, and parts of `others`."""
    result = bytearray(data)
    sources = [data, *others]
    for _ in range(count or rng.choice([1, 1, 1, 2, 3, 6])):
        at = rng.randrange(len(result) + 1)
        stop = min(len(result), at + rng.choice([1, 2, 4, 8, 16, 64]))
        match rng.randrange(9):
            case 0 | 1 if at < len(result):
                result[at] ^= 1 << rng.randrange(8)
            case 2 if at < len(result):
                result[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
            case 3:
                del result[at:stop]
            case 4:
                result[at:at] = rng.randbytes(rng.choice([1, 2, 4, 16, 300]))
            case 5:
                result[at:at] = result[at:stop] * rng.choice([1, 2, 50])
            case 6:
                width = rng.choice([1, 2, 4, 8])
                number = rng.choice([*_LENGTHS, len(result), len(result) + 1, rng.randrange(300)]) % (1 << 8 * width)
                result[at : at + width] = number.to_bytes(width, rng.choice(["little", "big"]))
            case 7:
                source = rng.choice(sources)
                start = rng.randrange(len(source) + 1)
                result[at:stop] = source[start : start + rng.choice([1, 4, 16, 64, 1000])]
            case _:
                result = result[:at] if rng.randrange(2) else result[at:]
    return bytes(result)


# --- text ------------------------------------------------------------------------------------------------------------

_TOKEN = re.compile(r"[A-Za-z0-9_.-]+|.", re.DOTALL)
_TAG = re.compile(rb"<[^>]*>|[^<]+")


def mutated_text(rng: Random, text: str, words: Iterable[str] = ()) -> str:
    """Return a changed text: words of it repeated, dropped, exchanged, or replaced by others."""
    tokens = _TOKEN.findall(text)
    others = [*words, *(word for word in WORDS if isinstance(word, str))]
    for _ in range(rng.choice([1, 1, 2, 3])):
        at = rng.randrange(len(tokens) + 1)
        match rng.randrange(6):
            case 0:
                tokens[at : at + rng.choice([1, 3])] = []
            case 1:
                tokens[at:at] = tokens[at : at + 3] * rng.choice([1, 2, 30])
            case 2:
                tokens[at:at] = [rng.choice(others)]
            case 3 if at < len(tokens):
                tokens[at] = rng.choice([tokens[at][::-1], tokens[at].upper(), tokens[at][:1], rng.choice(tokens)])
            case _:
                tokens[at : at + 1] = [rng.choice(others)]
    return "".join(tokens)


def mutated_xml(rng: Random, document: bytes) -> bytes:
    """Return a changed XML document: tags and texts dropped, repeated, nested, exchanged or replaced."""
    tokens: list[bytes] = _TAG.findall(document)
    for _ in range(rng.choice([1, 1, 2, 3, 5])):
        at = rng.randrange(len(tokens) + 1)
        match rng.randrange(8):
            case 0:
                tokens[at : at + rng.choice([1, 2])] = []
            case 1:
                tokens[at:at] = tokens[at : at + rng.choice([1, 3, 6])] * rng.choice([1, 2, 500])
            case 2:
                tokens[at:at] = [rng.choice(tokens or [b"<a>"])]
            case 3:
                texts = [index for index, token in enumerate(tokens) if not token.startswith(b"<")]
                word = str(rng.choice([*NUMBERS, *WORDS])).encode("utf-8", "surrogatepass")
                if texts:
                    tokens[rng.choice(texts)] = word
            case 4:
                tokens[at:at] = [
                    rng.choice([b"<!DOCTYPE a [<!ENTITY b 'c'>]>", b"&b;", b"<![CDATA[", b"<?x?>", b"<!--"])
                ]
            case 5 if at < len(tokens):
                tokens[at] = mutated_bytes(rng, tokens[at])
            case 6:
                tokens[at:at] = [rng.choice([b"<Key>", b"<a>", b"<a x='1'>"])] * rng.choice([1, 100, 5000])
            case _:
                swap = rng.randrange(len(tokens) + 1)
                if at < len(tokens) and swap < len(tokens):
                    tokens[at], tokens[swap] = tokens[swap], tokens[at]
    return b"".join(tokens)


def cut(rng: Random, data: bytes) -> list[bytes]:
    """Return the data in pieces."""
    edges = sorted({0, len(data), *(rng.randrange(len(data) + 1) for _ in range(rng.choice([0, 1, 3, 12])))})
    return [data[start:stop] for start, stop in pairwise(edges)]


Change = Callable[[Random, bytes], bytes]


def changed_values(rng: Random, values: Mapping[str, bytes], keys: Iterable[str], change: Change) -> dict[str, bytes]:
    """Return the values with some of those below `keys` changed, exchanged or dropped."""
    result, chosen = dict(values), sorted(keys)
    for key in rng.sample(chosen, min(len(chosen), rng.choice([1, 1, 2, 3]))):
        match rng.randrange(12):
            case 0:
                result.pop(key)
            case 1:
                result[key] = values[rng.choice(chosen)]
            case _:
                result[key] = change(rng, values[key])
    return result
