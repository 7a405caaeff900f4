"""Layouts come from zarr-python's metadata, without its keys and without limits; settings from its configuration."""

from __future__ import annotations

from typing import Any

import pytest
import zarr

from aiozarr.errors import AiozarrError
from aiozarr.integrations.zarr.array_layout import UNBOUNDED, UnsupportedArrayError, resolve_layout, settings_of
from aiozarr.settings import Settings


def metadata_of(**described: Any) -> Any:
    return zarr.create_array({}, **{"shape": (20, 30), "chunks": (10, 10), "dtype": "i4", **described}).metadata


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_equal_metadata_share_one_layout(zarr_format: Any) -> None:
    layout = resolve_layout(metadata_of(zarr_format=zarr_format))
    assert layout.spec.shape == (10, 10)
    assert resolve_layout(metadata_of(zarr_format=zarr_format)) is layout


def test_any_chunk_key_encoding_will_do() -> None:
    keys = {"name": "v2", "configuration": {"separator": "."}}
    assert resolve_layout(metadata_of(chunk_key_encoding=keys)).key_encoding.encode((1, 2)) == "c/1/2"


def test_chunks_have_no_limit() -> None:
    assert resolve_layout(metadata_of(shape=(1 << 40,), chunks=(1 << 40,))).spec.shape == (1 << 40,)


class OwnBytes(zarr.codecs.BytesCodec):
    """A codec of another package."""


def test_codecs_of_other_packages_are_refused_also_inside_of_shards() -> None:
    for described in ({"serializer": OwnBytes()}, {"serializer": OwnBytes(), "shards": (20, 20)}):
        with pytest.raises(UnsupportedArrayError, match="OwnBytes") as caught:
            resolve_layout(metadata_of(**described))
        assert caught.value.reason == "codec"
        assert isinstance(caught.value, AiozarrError)


def test_metadata_that_aiozarr_refuses_have_its_reason() -> None:
    class Unknown:
        zarr_format = 3
        codecs = ()

        def to_buffer_dict(self, prototype: Any) -> dict[str, Any]:
            return {"zarr.json": prototype.buffer.from_bytes(b'{"zarr_format": 3, "node_type": "array"}')}

    with pytest.raises(UnsupportedArrayError) as caught:
        resolve_layout(Unknown())
    assert caught.value.reason == "metadata"


def test_settings_have_no_limits_unless_they_are_configured() -> None:
    assert settings_of(None) == Settings(
        max_chunk_bytes=UNBOUNDED, max_index_bytes=UNBOUNDED, max_metadata_bytes=UNBOUNDED
    )
    configured = settings_of({"max_chunk_bytes": 100, "missing_chunks": "raise"})
    assert (configured.max_chunk_bytes, configured.missing_chunks) == (100, "fill")
    assert settings_of({"max_requests": 3}) is settings_of({"max_requests": 3})
    assert settings_of({"missing_status": [404, 403]}).missing_status == (404, 403)
    with pytest.raises(TypeError, match="did you mean 'max_requests'"):
        settings_of({"max_request": 3})
    with pytest.raises(TypeError, match="must be a mapping of settings, not 5"):
        settings_of(5)  # type: ignore[arg-type]
