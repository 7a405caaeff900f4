"""Kerchunk's JSON documents of references, versions 0 and 1, parsed into columns without a list for each reference."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Mapping
from typing import Any

import numpy as np
from typing_extensions import Buffer

from aiozarr.errors import InvalidMetadataError, LimitError, UnsupportedMetadataError
from aiozarr.stores.reference.columns import WHOLE, check_bound, check_reference, shown_number
from aiozarr.stores.reference.table import LoadedReferences, ReferenceRows

MAX_URL_LENGTH = 1 << 13
"""The longest URL of a reference, after its templates are filled in."""

MAX_TEMPLATE_GROWTH = 16
"""How many times as long URLs may become, all together, when their templates are filled in."""
MIN_FILLED_CHARACTERS = 1 << 20
"""URLs of so many characters are filled in, however much longer they become."""

BATCH_ROWS = 1 << 14
"""References that are lists of Python objects at once."""

_SPACE = re.compile(r"[ \t\r\n]*")
_BASE64 = "base64:"
# Nearly all members of a large document are a key, a URL and two numbers without escapes. Runs of them are split at
# their quotation marks, which takes half the time of a JSON parser, and a tenth of its memory.
_MIN_RUN_CHARACTERS, _MAX_RUN_CHARACTERS = 1 << 9, 1 << 20
_ESCAPED = bytes(range(32)) + b"\\"
_COLON = re.compile(r"[ \t\r\n]*:[ \t\r\n]*\[[ \t\r\n]*")
_NUMBERS = r" , (?:0|[1-9]\d{0,17}) , (?:0|[1-9]\d{0,17}) \] , ".replace(" ", r"[ \t\r\n]*")
_ALL_NUMBERS = re.compile(rf"{_NUMBERS}(?:\x00{_NUMBERS})*+")
_TEMPLATE = re.compile(r"\{\{[ ]*([A-Za-z_]\w*)[ ]*\}\}")


def parse(data: Buffer) -> LoadedReferences:
    """Return the references of a JSON document.

    Raises:
        InvalidMetadataError: it is not a document of references.
        UnsupportedMetadataError: it has `gen`, or templates that are programs.
        LimitError: it has too many references, or a reference that ends beyond all objects.
    """
    try:
        # Editors and shells of Windows write UTF-16, or a byte order mark.
        return _Parser(str(data, json.detect_encoding(bytes(memoryview(data)[:4])))).parse()
    except (ValueError, RecursionError) as error:  # numbers of thousands of digits are a plain ValueError
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InvalidMetadataError(f"the document of references is not valid JSON: {reason}") from None


def from_mapping(document: Mapping[str, Any]) -> LoadedReferences:
    """Return the references of a document in memory; raises what `parse` raises."""
    references = document.get("refs", document)
    if not isinstance(references, Mapping):
        raise InvalidMetadataError("'refs' must be an object", member="refs")
    builder = _Builder()
    for key, value in references.items():
        builder.add(key, value)
    return builder.finish({} if references is document else document)


class _Parser:
    """Walks through the text of a document once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._decode = json.JSONDecoder().raw_decode
        self._members: dict[str, Any] = {}
        self._references: _Builder | None = None

    def parse(self) -> LoadedReferences:
        top = _Builder()
        end = self._space(self._object(self._space(0), top))
        if end != len(self._text):
            raise json.JSONDecodeError("Extra data", self._text, end)
        if self._references is not None:
            return self._references.finish(self._members)
        for key, value in self._members.items():
            top.add(key, value)
        return top.finish({})

    def _object(self, position: int, builder: _Builder) -> int:
        """Read the object at `position` into `builder`; return the position after it."""
        text, is_top = self._text, self._references is None
        self._expect("{", position)
        after_brace = position + 1
        position = self._space(after_brace)
        if text[position : position + 1] == "}":
            return position + 1
        position = after_brace
        while True:
            after_run = builder.add_run(text, position)
            if after_run is not None:
                position = after_run
                continue
            position = self._space(position)
            self._expect('"', position)
            key, position = self._decode(text, position)
            position = self._space(position)
            self._expect(":", position)
            position = self._space(position + 1)
            if is_top and key == "refs" and text[position : position + 1] == "{":
                self._references = _Builder()
                position = self._object(position, self._references)
            else:
                value, position = self._decode(text, position)
                if is_top:
                    self._members[key] = value  # a member of version 1, or a reference of version 0
                else:
                    builder.add(key, value)
            position = self._space(position)
            if text[position : position + 1] == "}":
                return position + 1
            self._expect(",", position)
            position += 1

    def _space(self, position: int) -> int:
        match = _SPACE.match(self._text, position)
        assert match is not None
        return match.end()

    def _expect(self, character: str, position: int) -> None:
        if not self._text.startswith(character, position):
            raise json.JSONDecodeError(f"Expecting {character!r}", self._text, position)


class _Builder:
    """Builds the references of a document, in the order of its members."""

    def __init__(self) -> None:
        self._into = LoadedReferences()
        self._rows = ReferenceRows(self._into)
        self._pending: list[tuple[str, str, int, int]] = []
        self._run_characters = _MAX_RUN_CHARACTERS

    def add_run(self, text: str, position: int) -> int | None:
        """Add the run of plain references at `position` of a document.

        Returns: the position after it, or None if the next member has to be parsed.
        """
        # If other members are in between, shorter runs are tried, so that little is read in vain.
        end = text.rfind("],", position, position + self._run_characters) + 2
        is_plain = end >= 2 and self._add_plain(text[position:end])
        factor = 4 if is_plain else 0.25
        self._run_characters = min(_MAX_RUN_CHARACTERS, max(_MIN_RUN_CHARACTERS, int(self._run_characters * factor)))
        return end if is_plain else None

    def _add_plain(self, run: str) -> bool:
        """Add a run of references if it has nothing else; return whether it has been added."""
        pieces = run.split('"')
        keys, urls, numbers = pieces[1::4], pieces[3::4], pieces[4::4]
        is_regular = (
            len(pieces) % 4 == 1 and len(pieces) > 1 and not pieces[0].strip(" \t\r\n") and all(keys) and all(urls)
        )
        if not is_regular or not all(map(_COLON.fullmatch, set(pieces[2::4]))):
            return False
        names, joined = ("".join(keys) + "".join(urls)).encode(), "\0".join(numbers)
        if len(names.translate(None, _ESCAPED)) < len(names) or _ALL_NUMBERS.fullmatch(joined) is None:
            return False
        for mark in ",]\0":
            joined = joined.replace(mark, " ")
        values = np.fromstring(joined, np.int64, sep=" ")
        self._flush()
        self._rows.add(keys, urls, values[::2], values[1::2])
        return True

    def add(self, key: object, value: object) -> None:
        """Add one reference or inlined value."""
        if not isinstance(key, str):
            raise InvalidMetadataError(f"keys of references must be strings, not {key!r}")
        if isinstance(value, str):
            self._into.add_single(key, _inlined(key, value))
        elif isinstance(value, bytes | bytearray | memoryview):
            self._into.add_single(key, bytes(value))
        elif isinstance(value, Mapping):
            self._into.add_single(key, json.dumps(value).encode())
        elif isinstance(value, list | tuple) and len(value) in (1, 3) and isinstance(value[0], str) and value[0]:
            start, length = check_reference(key, *value[1:]) if len(value) == 3 else (0, WHOLE)
            self._pending.append((key, value[0], start, length))
            if len(self._pending) == BATCH_ROWS:
                self._flush()
        else:
            raise InvalidMetadataError(
                f"the value of {key!r} must be a string, [URL] or [URL, offset, length]", key=key
            )

    def _flush(self) -> None:
        pending, self._pending = self._pending, []
        if pending:
            keys, urls, starts, lengths = zip(*pending, strict=True)
            self._rows.add(keys, urls, np.array(starts, np.int64), np.array(lengths, np.int64))

    def finish(self, members: Mapping[str, Any]) -> LoadedReferences:
        """Return the references; `members` are the other members of a document of version 1 than `refs`."""
        self._flush()
        self._rows.finish()
        templates = _templates(members)
        loaded = self._into
        allowance = MIN_FILLED_CHARACTERS

        def filled(url: str) -> str:
            nonlocal allowance
            text = _fill(url, templates)
            allowance += MAX_TEMPLATE_GROWTH * len(url) - len(text)
            if allowance < 0:
                message = f"templates make the URLs more than {MAX_TEMPLATE_GROWTH} times as long as they are stored"
                raise LimitError(message, limit="template growth", allowed=MAX_TEMPLATE_GROWTH)
            return text

        loaded.targets[:] = [filled(str(url)) for url in loaded.targets]
        for key, each in loaded.single.items():
            loaded.single[key] = each._replace(target=filled(str(each.target)))
        return loaded


def _templates(members: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the templates of a document of version 1, whose other members are checked."""
    version = members.get("version", 1)
    if version not in (0, 1):
        raise UnsupportedMetadataError(
            f"references of version {shown_number(version)}; only versions 0 and 1 are supported", member="version"
        )
    if members.get("gen"):
        raise UnsupportedMetadataError(
            "'gen' generates references with programs, which are not run; write the references out, for example "
            "with fsspec's ReferenceFileSystem.save_json",
            member="gen",
        )
    templates = members.get("templates") or {}
    if not isinstance(templates, Mapping):
        raise InvalidMetadataError("templates must map names to strings", member="templates")
    for name, value in templates.items():
        if not isinstance(value, str):
            raise InvalidMetadataError("templates must map names to strings", member=f"templates.{name}")
        if "{{" in value:
            reason = "a template with templates inside is a program, which is not run"
            raise UnsupportedMetadataError(reason, member=f"templates.{name}")
    return templates


def _fill(url: str, templates: Mapping[str, str]) -> str:
    """Return the URL of a reference with its templates filled in."""
    if templates and "{{" in url:
        names = _TEMPLATE.findall(url)
        unknown = [name for name in names if name not in templates]
        if unknown:
            raise InvalidMetadataError(f"there is no template {unknown[0][:200]!r}", member="templates")
        if sum([len(templates[name]) for name in names]) + len(url) > 2 * MAX_URL_LENGTH:
            url = url.ljust(MAX_URL_LENGTH + 1)  # not filled in: it is too long
        url = _TEMPLATE.sub(lambda match: templates[match[1]], url)
        if "{{" in url:
            raise UnsupportedMetadataError(f"the URL {url[:200]!r} has a template that is a program, which is not run")
    check_url_length(url)
    return url


def check_url_length(url: str, key: str | None = None) -> None:
    """Raise `LimitError` if the URL of a reference, in the document `key`, is too long."""
    check_bound(len(url), MAX_URL_LENGTH, "URL length", "a reference has a URL of more than {allowed} characters", key)


def _inlined(key: str, text: str) -> bytes:
    """Return the bytes of an inlined value."""
    try:
        return b64decode(text[len(_BASE64) :]) if text.startswith(_BASE64) else text.encode()
    except ValueError as error:
        raise InvalidMetadataError(f"the inlined value of {key!r} cannot be decoded: {error}", key=key) from None
