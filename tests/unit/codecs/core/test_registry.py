"""Names of codecs: unknown ones are refused with a way out, older ones are read and never written."""

from __future__ import annotations

import numpy as np
import pytest

from aiozarr.codecs import ArraySpec, CodecPipeline, get_codec, registry
from aiozarr.errors import UnsupportedMetadataError


def test_an_unknown_codec_is_refused_with_its_name_and_how_to_register_one() -> None:
    with pytest.raises(UnsupportedMetadataError, match="unknown codec 'gdeflate'") as caught:
        get_codec("gdeflate")
    message = str(caught.value)
    assert (caught.value.point, caught.value.name) == ("codec", "gdeflate")
    assert "aiozarr.codecs.register_codec" in message
    assert "'aiozarr.codecs'" in message
    assert "vlen-utf8" not in message
    with pytest.raises(UnsupportedMetadataError, match=r"did you mean 'vlen-utf8'\?"):
        get_codec("vlen-utf-8")


def test_a_long_name_is_shortened_in_the_message() -> None:
    with pytest.raises(UnsupportedMetadataError) as caught:
        get_codec("x" * 100_000)
    assert len(str(caught.value)) < 3000


@pytest.mark.parametrize("alias", sorted(registry._ALIASES))
def test_every_older_name_refers_to_a_registered_codec(alias: str) -> None:
    assert get_codec(alias).name != alias
    assert get_codec(alias) is get_codec(get_codec(alias).name)


def test_the_registered_name_is_written() -> None:
    spec = ArraySpec((1,), np.dtype("u1"), np.zeros((), "u1"))
    pipeline = CodecPipeline.resolve(["endian", "https://codec.zarrs.dev/bytes_to_bytes/bz2"], spec)
    assert pipeline.to_json() == [{"name": "bytes"}, {"name": "numcodecs.bz2", "configuration": {"level": 1}}]
