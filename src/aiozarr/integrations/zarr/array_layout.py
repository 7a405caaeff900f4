"""The layout of one of zarr-python's arrays, from its metadata; and settings from zarr-python's configuration."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from functools import lru_cache
from typing import Any

from aiozarr.common.formatting import did_you_mean
from aiozarr.engine import ArrayLayout
from aiozarr.errors import AiozarrError
from aiozarr.metadata.formats import parse_node
from aiozarr.metadata.records import ArrayMetadata, NamedConfig
from aiozarr.settings import Settings

UNBOUNDED = sys.maxsize
"""zarr-python does not limit chunks and indexes, and an array that it has opened must be readable."""

_DEFAULTS: dict[str, Any] = {
    "max_chunk_bytes": UNBOUNDED,
    "max_index_bytes": UNBOUNDED,
    "max_metadata_bytes": UNBOUNDED,
}

_KEYS = NamedConfig("default", {"separator": "/"})
"""zarr-python makes the keys, so the encoding in the metadata does not matter and may be unknown."""


class UnsupportedArrayError(AiozarrError):
    """aiozarr cannot read an array that zarr-python reads.

    Attributes:
        reason: the kind of reason, for counters.
    """

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


def resolve_layout(array_metadata: Any) -> ArrayLayout:
    """Return the layout of an array of `zarr.core.metadata`.

    Raises:
        UnsupportedArrayError: aiozarr cannot read it, or its codecs are not implemented by zarr-python.
    """
    from zarr.core.buffer import default_buffer_prototype

    for codec in _codecs_of(array_metadata):
        if not type(codec).__module__.startswith(("zarr.", "numcodecs.")):
            raise UnsupportedArrayError(f"{type(codec).__qualname__} is not part of zarr-python", reason="codec")
        if getattr(codec, "subchunk_write_order", "morton") == "colexicographic":
            raise UnsupportedArrayError("colexicographic order is not supported", reason="order of inner chunks")
    documents = array_metadata.to_buffer_dict(default_buffer_prototype())
    return _resolve(tuple([(key, value.to_bytes()) for key, value in documents.items()]))


@lru_cache(maxsize=256)
def _resolve(documents: tuple[tuple[str, bytes], ...]) -> ArrayLayout:
    settings = Settings(**_DEFAULTS)
    try:
        metadata = parse_node(dict(documents), node="a zarr-python array", settings=settings)
        assert isinstance(metadata, ArrayMetadata)
        metadata = replace(metadata, chunk_key_encoding=_KEYS)
        return ArrayLayout.resolve(metadata, node="a zarr-python array", settings=settings)
    except (AiozarrError, ValueError, TypeError, ImportError) as error:
        raise UnsupportedArrayError(str(error), reason="metadata") from error


def _codecs_of(metadata: Any) -> Iterator[Any]:
    """Yield the codecs of an array, those inside of shards included."""
    if not hasattr(metadata, "codecs"):  # the metadata of format 2
        yield from [each for each in (*(metadata.filters or ()), metadata.compressor) if each is not None]
        return
    waiting = list(metadata.codecs)
    while waiting:
        codec = waiting.pop()
        yield codec
        waiting += [*getattr(codec, "codecs", ()), *getattr(codec, "index_codecs", ())]


def settings_of(configured: Mapping[str, Any] | None) -> Settings:
    """Return the settings of the member `aiozarr` of zarr-python's configuration.

    Raises:
        TypeError, ValueError: an unknown setting, or a value that it cannot have.
    """
    if configured is None:
        configured = {}
    if not isinstance(configured, Mapping):
        raise TypeError(f"`aiozarr` in zarr-python's configuration must be a mapping of settings, not {configured!r}")
    known = [each.name for each in fields(Settings)]
    for name in configured:
        if name not in known:
            hint = did_you_mean(name, known, "expected a field of aiozarr.Settings")
            raise TypeError(f"unknown setting 'aiozarr.{name}' in zarr-python's configuration; {hint}")
    # The environment and files of the configuration have lists where settings have tuples.
    values = {name: tuple(each) if isinstance(each, list) else each for name, each in configured.items()}
    return _settings_of(tuple(sorted(values.items())))


@lru_cache(maxsize=16)
def _settings_of(configured: tuple[tuple[str, Any], ...]) -> Settings:
    # zarr-python decides whether a missing chunk is an error.
    return Settings(**{**_DEFAULTS, **dict(configured), "missing_chunks": "fill"})
