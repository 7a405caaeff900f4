"""Bytes in JSON: base64, and lists of integers from 0 to 255."""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Mapping

import numpy as np

from aiozarr.errors import InvalidMetadataError
from aiozarr.metadata.data_type import JSON, check_item_size


def parse_base64(text: str, member: str) -> bytes:
    """Return the bytes of a base64 text.

    Raises:
        InvalidMetadataError: the text is not base64.
    """
    try:
        return b64decode(text.encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error, ValueError):
        raise InvalidMetadataError("not base64", member=member) from None


def render_base64(data: bytes) -> str:
    """Return the base64 text of `data`."""
    return b64encode(data).decode()


def parse_byte_list(value: list[JSON], member: str) -> bytes:
    """Return the bytes of a list of integers from 0 to 255.

    Raises:
        InvalidMetadataError: the list has other items.
    """
    for i, byte in enumerate(value):
        if type(byte) is not int or not 0 <= byte <= 255:
            raise InvalidMetadataError("not an integer from 0 to 255", member=f"{member}[{i}]")
    return bytes(value)


def bytes_of(value: object) -> bytes | None:
    """Return the bytes of a bytes-like value or of ASCII text, or None for other values.

    Raises:
        ValueError: text with other characters than ASCII.
    """
    if isinstance(value, str):
        return value.encode("ascii")
    if isinstance(value, np.void | np.ndarray):
        return value.tobytes()
    return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else None


def parse_length(name: str, configuration: Mapping[str, JSON], member: str, *, multiple: int = 1) -> int:
    """Return the only member of a configuration, `length_bytes`.

    Raises:
        InvalidMetadataError: other members, or a length that is not a multiple of `multiple`.
        UnsupportedMetadataError: a length of 0, or of more than 1 MiB.
    """
    member = f"{member}.configuration"
    for key in configuration:
        if key != "length_bytes":
            raise InvalidMetadataError(f"{name!r} has no such parameter", member=f"{member}.{key}"[:200])
    length = configuration.get("length_bytes")
    if type(length) is not int or length < 0 or length % multiple:
        kind = "an integer" if multiple == 1 else f"a multiple of {multiple}"
        raise InvalidMetadataError(f"{name!r} has a length, {kind} of at least 0", member=f"{member}.length_bytes")
    check_item_size(length, name, f"{member}.length_bytes")
    return length
