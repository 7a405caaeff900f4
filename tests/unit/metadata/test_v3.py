"""Zarr v3 documents: all members, all checks, and the round trip."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from aiozarr.errors import InvalidMetadataError, LimitError, MetadataError, UnsupportedMetadataError
from aiozarr.metadata.formats import PROBE_KEYS, parse_node, render_node
from aiozarr.metadata.records import ArrayMetadata, GroupMetadata, NamedConfig
from aiozarr.settings import Settings

STRICT = Settings(strict=True)
BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
ARRAY: dict[str, Any] = {
    "zarr_format": 3,
    "node_type": "array",
    "shape": [10, 20],
    "data_type": "float64",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [5, 20]}},
    "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    "fill_value": "NaN",
    "codecs": [BYTES],
}
GROUP: dict[str, Any] = {"zarr_format": 3, "node_type": "group"}


def parse_text(text: str | bytes, settings: Settings | None = None) -> Any:
    data = text.encode() if isinstance(text, str) else text
    return parse_node({"zarr.json": data}, node="memory://x/a", settings=settings or Settings())


def parse(base: dict[str, Any], settings: Settings | None = None, **members: Any) -> Any:
    return parse_text(json.dumps(base | members), settings)


def with_text(base: dict[str, Any], member: str, text: str) -> str:
    """The document of `base` with a member whose JSON is `text`, as `json.dumps` would not write it."""
    kept = json.dumps({name: value for name, value in base.items() if name != member})
    return f'{kept[:-1]}, "{member}": {text}}}'


# --- what is read ----------------------------------------------------------------------------------------------------


def test_an_array_document_is_read_member_by_member() -> None:
    metadata = parse(ARRAY, attributes={"a": [1, None]}, dimension_names=["y", None], storage_transformers=[])
    assert isinstance(metadata, ArrayMetadata)
    assert (metadata.zarr_format, metadata.shape, metadata.ndim) == (3, (10, 20), 2)
    assert (metadata.data_type.name, metadata.dtype) == ("float64", np.dtype("float64"))
    assert metadata.chunk_grid == NamedConfig("regular", {"chunk_shape": [5, 20]})
    assert metadata.chunk_key_encoding == NamedConfig("default", {"separator": "/"})
    assert metadata.codecs == (NamedConfig("bytes", {"endian": "little"}),)
    assert np.isnan(metadata.fill_value)
    assert metadata.attributes == {"a": [1, None]}
    assert metadata.dimension_names == ("y", None)
    assert metadata.storage_transformers == ()
    assert metadata.extra == {}


def test_members_that_may_be_absent_have_their_defaults() -> None:
    metadata = parse(ARRAY)
    assert (metadata.attributes, metadata.dimension_names, metadata.storage_transformers) == ({}, None, ())
    assert parse(GROUP) == GroupMetadata(3, {})


def test_a_missing_document_is_a_missing_node() -> None:
    assert parse_node({"zarr.json": None}, node="memory://x") is None
    assert parse_node({}, node="memory://x") is None
    assert PROBE_KEYS[0] == "zarr.json"


def test_extensions_may_be_given_by_their_name_alone() -> None:
    metadata = parse(
        ARRAY, chunk_key_encoding="default", codecs=["bytes", "crc32c"], data_type={"name": "int8"}, fill_value=0
    )
    assert metadata.chunk_key_encoding == NamedConfig("default")
    assert [codec.name for codec in metadata.codecs] == ["bytes", "crc32c"]
    assert metadata.data_type.name == "int8"
    assert parse(ARRAY, chunk_grid="regular").chunk_grid == NamedConfig("regular")
    assert json.loads(render_node(metadata)["zarr.json"])["codecs"] == [{"name": "bytes"}, {"name": "crc32c"}]


def test_shapes_of_any_product_are_read() -> None:
    length = 2**63 - 1
    assert parse(ARRAY, shape=[length, length]).shape == (length, length)
    assert parse(ARRAY, shape=[], chunk_grid="regular").shape == ()
    assert parse(ARRAY, shape=[0, 20]).shape == (0, 20)
    assert parse(ARRAY, shape=[1] * 32).ndim == 32


def test_nulls_of_real_writers_are_parsed_unless_strict() -> None:
    # A null fill value is what GDAL writes, null dimension names what early zarr-python wrote.
    metadata = parse(ARRAY, data_type="int16", fill_value=None, dimension_names=None)
    assert (metadata.fill_value.item(), metadata.fill_value.dtype) == (0, np.dtype("int16"))
    assert metadata.dimension_names is None
    rendered = json.loads(render_node(metadata)["zarr.json"])
    assert rendered["fill_value"] == 0
    assert "dimension_names" not in rendered
    for member in ("fill_value", "dimension_names"):
        with pytest.raises(InvalidMetadataError) as caught:
            parse(ARRAY, STRICT, **{member: None})
        assert caught.value.member == member


# --- unknown members and extensions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("base", [ARRAY, GROUP])
@pytest.mark.parametrize(
    "value", [1, None, "x", [], {}, {"must_understand": True}, {"must_understand": 0}, [{"must_understand": False}]]
)
def test_an_unknown_member_is_rejected_by_name(base: dict[str, Any], value: Any) -> None:
    with pytest.raises(UnsupportedMetadataError) as caught:
        parse(base, surprise=value)
    assert (caught.value.member, caught.value.name) == ("surprise", "surprise")


@pytest.mark.parametrize("base", [ARRAY, GROUP])
def test_an_unknown_member_that_may_be_ignored_is_stored_again(base: dict[str, Any]) -> None:
    note = {"must_understand": False, "who": [1, {"é": None}]}
    metadata = parse(base, note=note)
    assert metadata.extra == {"note": note}
    changed = metadata.with_attributes({"a": 1})
    assert json.loads(render_node(changed)["zarr.json"])["note"] == note


@pytest.mark.parametrize("value", [None, {"must_understand": False, "kind": "another", "where": "elsewhere"}])
def test_consolidated_metadata_may_be_null_or_of_a_kind_that_may_be_ignored(value: Any) -> None:
    metadata = parse(GROUP, consolidated_metadata=value)
    assert metadata == GroupMetadata(3)
    assert b"consolidated" not in render_node(metadata)["zarr.json"]
    with pytest.raises(UnsupportedMetadataError):
        parse(ARRAY, consolidated_metadata=None)


@pytest.mark.parametrize("value", [{}, {"must_understand": True}, []])
def test_consolidated_metadata_that_must_be_understood_are_rejected(value: Any) -> None:
    with pytest.raises(UnsupportedMetadataError) as caught:
        parse(GROUP, consolidated_metadata=value)
    assert caught.value.member == "consolidated_metadata"


def test_a_storage_transformer_is_rejected_unless_it_may_be_ignored() -> None:
    for transformer in ("cache", {"name": "cache"}, {"name": "cache", "must_understand": True}):
        with pytest.raises(UnsupportedMetadataError) as caught:
            parse(ARRAY, storage_transformers=[transformer])
        assert (caught.value.point, caught.value.name) == ("storage_transformer", "cache")
        assert caught.value.member == "storage_transformers[0]"
    ignorable = {"name": "cache", "configuration": {"a": 1}, "must_understand": False}
    metadata = parse(ARRAY, storage_transformers=[ignorable])
    assert json.loads(render_node(metadata)["zarr.json"])["storage_transformers"] == [ignorable]


def test_must_understand_of_an_extension_is_stored_again() -> None:
    codec = {"name": "hint", "configuration": {"a": [1, {"b": None}]}, "must_understand": False}
    metadata = parse(ARRAY, codecs=[BYTES, codec])
    assert metadata.codecs[1] == NamedConfig("hint", {"a": [1, {"b": None}]}, must_understand=False)
    assert json.loads(render_node(metadata)["zarr.json"])["codecs"] == [BYTES, codec]


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("member", ARRAY)
def test_a_missing_member_is_named(member: str) -> None:
    with pytest.raises(InvalidMetadataError) as caught:
        parse({name: value for name, value in ARRAY.items() if name != member})
    assert caught.value.member == member
    assert (caught.value.node, caught.value.key) == ("memory://x/a", "zarr.json")
    assert "memory://x/a" in str(caught.value)


@pytest.mark.parametrize(
    ("member", "value", "place"),
    [
        *(("zarr_format", value, "") for value in (2, 4, "3", 3.0, True, None, [3])),
        *(("node_type", value, "") for value in ("dataset", "Array", None, 1, ["array"], {"array": 1})),
        *(("shape", value, "") for value in (None, 10, "10", {}, {"0": 1})),
        *(("shape", [10, value], "[1]") for value in (-1, True, 16.0, "16", None, [1], 1e300)),
        *(("data_type", value, "") for value in (None, 1, [])),
        *(("chunk_grid", value, "") for value in (None, 1, [], True)),
        *(("chunk_grid", value, ".name") for value in ({}, {"name": None}, {"name": 1}, {"id": "regular"})),
        *(("chunk_key_encoding", value, "") for value in (None, 1, [])),
        ("chunk_key_encoding", {"name": "default", "configuration": None}, ".configuration"),
        ("chunk_key_encoding", {"name": "default", "configuration": []}, ".configuration"),
        ("chunk_key_encoding", {"name": "default", "must_understand": 1}, ".must_understand"),
        ("chunk_key_encoding", {"name": "default", "separator": "/"}, ".separator"),
        *(("codecs", value, "") for value in (None, {}, "bytes", [])),
        *(("codecs", [BYTES, value], "[1]") for value in (None, 1, [])),
        ("codecs", [{"id": "zstd"}], "[0].name"),
        ("codecs", [{"name": "zstd", "configuration": 1}], "[0].configuration"),
        *(("attributes", value, "") for value in (None, [], "x", 1)),
        *(("storage_transformers", value, "") for value in (None, {}, "x")),
        *(("dimension_names", value, "") for value in ("yx", ["y"], ["y", "x", "z"], {}, 2)),
        *(("dimension_names", ["y", value], "[1]") for value in (1, True, [], {})),
        *(("fill_value", value, "") for value in (True, "nan", [0.0])),
    ],
)
def test_an_invalid_member_is_rejected_with_its_path(member: str, value: Any, place: str) -> None:
    with pytest.raises(InvalidMetadataError) as caught:
        parse(ARRAY, STRICT, **{member: value})
    assert caught.value.member == member + place
    assert (caught.value.node, caught.value.key) == ("memory://x/a", "zarr.json")


@pytest.mark.parametrize(
    ("members", "place"),
    [
        ({"shape": [10, 2**63]}, "shape[1]"),
        ({"shape": [2**70, 1]}, "shape[0]"),
        ({"shape": [1] * 33}, "shape"),
        ({"codecs": [BYTES] * 65}, "codecs"),
        ({"codecs": ["crc32c"] * 100_000}, "codecs"),
        ({"codecs": [{"name": "x" * 100_000}]}, "codecs[0]"),
        ({"data_type": "int128"}, "data_type"),
        ({"data_type": {"name": "optional", "configuration": {"name": "uint8"}}}, "data_type"),
        ({"data_type": "r17179869184"}, "data_type"),
    ],
)
def test_unsupported_members_are_rejected_as_unsupported(members: dict[str, Any], place: str) -> None:
    with pytest.raises(UnsupportedMetadataError) as caught:
        parse(ARRAY, **members)
    assert caught.value.member == place
    assert len(str(caught.value)) < 1500


def test_an_invalid_configuration_of_the_data_type_is_rejected() -> None:
    with pytest.raises(InvalidMetadataError) as caught:
        parse(ARRAY, data_type={"name": "int8", "configuration": {"x": 1}}, fill_value=0)
    assert caught.value.member == "data_type.configuration"


@pytest.mark.parametrize("token", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
def test_numbers_that_json_lacks_are_rejected_in_members_of_the_format(token: str) -> None:
    with pytest.raises(InvalidMetadataError) as caught:
        parse_text(with_text(ARRAY, "fill_value", token), STRICT)
    assert caught.value.member == "fill_value"
    with pytest.raises(InvalidMetadataError) as caught:
        parse_text(with_text(ARRAY, "codecs", f'[{{"name": "zstd", "configuration": {{"level": {token}}}}}]'))
    assert caught.value.member == "codecs[0].configuration.level"
    with pytest.raises(InvalidMetadataError) as caught:
        parse_text(with_text(GROUP, "note", f'{{"must_understand": false, "x": [{token}]}}'))
    assert caught.value.member == "note.x[0]"


@pytest.mark.parametrize("token", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_json_lacks_are_parsed_in_attributes_unless_strict_and_written_back(token: str) -> None:
    text = with_text(ARRAY, "attributes", f'{{"a": [1, {token}]}}')
    metadata = parse_text(text)
    assert not np.isfinite(metadata.attributes["a"][1])
    with pytest.raises(InvalidMetadataError) as caught:
        parse_text(text, STRICT)
    assert caught.value.member == "attributes.a[1]"
    written = parse_text(render_node(metadata)["zarr.json"])
    assert np.array_equal(written.attributes["a"], metadata.attributes["a"], equal_nan=True)


def test_duplicate_keys_are_rejected_in_members_of_the_format_and_parsed_in_attributes() -> None:
    twice = json.dumps(GROUP)[:-1] + ', "attributes": {}, "attributes": {"a": 1}}'
    with pytest.raises(InvalidMetadataError) as caught:
        parse_text(twice)
    assert caught.value.member == "attributes"
    with pytest.raises(InvalidMetadataError) as caught:
        parse_text(
            with_text(
                ARRAY, "chunk_grid", '{"name": "regular", "configuration": {"chunk_shape": [1], "chunk_shape": [2]}}'
            )
        )
    assert caught.value.member == "chunk_grid.configuration.chunk_shape"
    text = with_text(GROUP, "attributes", '{"a": 1, "b": {"c": 1, "c": 2}, "a": 3}')
    assert parse_text(text).attributes == {"a": 3, "b": {"c": 2}}
    with pytest.raises(InvalidMetadataError):
        parse_text(text, STRICT)


def test_lone_surrogates_are_rejected_outside_of_attributes() -> None:
    assert parse_text(with_text(ARRAY, "attributes", '{"a": ["\\ud800"]}')).attributes == {"a": ["\ud800"]}
    with pytest.raises(InvalidMetadataError, match="surrogate"):
        parse_text(with_text(ARRAY, "attributes", '{"\\uDFFF": 1}'), STRICT)
    for member, text in (
        ("data_type", '"\\ud800"'),
        ("dimension_names", '["y", "\\ud83d"]'),
    ):
        with pytest.raises(InvalidMetadataError, match="surrogate") as caught:
            parse_text(with_text(ARRAY, member, text))
        str(caught.value).encode()
    assert parse_text(with_text(GROUP, "attributes", '{"a": "\\ud83d\\ude00\\\\ud800"}')).attributes == {
        "a": "😀\\ud800"
    }


def test_a_document_above_the_limit_is_rejected_with_its_node() -> None:
    with pytest.raises(LimitError, match=r"memory://x/a.*zarr\.json") as caught:
        parse(GROUP, Settings(max_metadata_bytes=10))
    assert (caught.value.limit, caught.value.allowed) == ("max_metadata_bytes", 10)


def test_attributes_may_be_deep_and_long_within_the_bounds() -> None:
    deep = "[" * 198 + "7" * 4300 + "]" * 198
    assert parse_text(with_text(GROUP, "attributes", f'{{"a": {deep}}}')).attributes == {"a": json.loads(deep)}
    with pytest.raises(InvalidMetadataError):
        parse_text(with_text(GROUP, "attributes", f'{{"a": [{deep}]}}'))
    with pytest.raises(InvalidMetadataError):
        parse_text(with_text(GROUP, "attributes", f'{{"a": {"7" * 5000}}}'))


# --- and back --------------------------------------------------------------------------------------------------------


def test_a_document_is_written_in_the_order_of_the_specification() -> None:
    metadata = parse(ARRAY, attributes={"z": 1, "a": 2}, dimension_names=["y", None])
    ((key, data),) = render_node(metadata).items()
    assert key == "zarr.json"
    written = json.loads(data)
    assert list(written) == [*ARRAY, "dimension_names", "attributes"]
    assert written == ARRAY | {"attributes": {"z": 1, "a": 2}, "dimension_names": ["y", None]}
    assert list(written["attributes"]) == ["z", "a"]
    assert data == render_node(parse_text(data))["zarr.json"]
    assert json.loads(render_node(parse(GROUP))["zarr.json"]) == GROUP | {"attributes": {}}


def test_metadata_that_could_not_be_opened_again_is_never_written() -> None:
    metadata = parse(ARRAY)
    for changed in (
        {"dimension_names": ("y",)},
        {"shape": (-1, 2)},
        {"shape": (1,) * 33},
        {"codecs": ()},
        {"extra": {"surprise": 1}},
    ):
        fields: dict[str, Any] = {name: getattr(metadata, name) for name in ArrayMetadata.__dataclass_fields__}
        with pytest.raises(MetadataError):
            render_node(ArrayMetadata(**(fields | changed)))


def test_attributes_that_are_not_json_are_type_errors() -> None:
    for value in (np.int64(1), b"x", {1: 2}, {1, 2}):
        with pytest.raises(TypeError, match=r"attributes\.a"):
            render_node(parse(GROUP).with_attributes({"a": value}))
