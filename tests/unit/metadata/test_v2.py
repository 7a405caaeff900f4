"""Zarr v2 documents: all members, all checks, and the round trip."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiozarr.errors import InvalidMetadataError, MetadataError, UnsupportedMetadataError
from aiozarr.metadata.formats import parse_node, render_node
from aiozarr.metadata.records import ArrayMetadata, GroupMetadata, NamedConfig
from aiozarr.settings import Settings

STRICT = Settings(strict=True)
LITTLE = NamedConfig("bytes", {"endian": "little"})
ARRAY: dict[str, Any] = {
    "zarr_format": 2,
    "shape": [10, 20],
    "chunks": [5, 20],
    "dtype": "<i4",
    "compressor": None,
    "fill_value": 0,
    "order": "C",
    "filters": None,
}


def parse(settings: Settings | None = None, attributes: Any = None, **members: Any) -> Any:
    documents = {".zarray": json.dumps(ARRAY | members).encode()}
    if attributes is not None:
        documents[".zattrs"] = json.dumps(attributes).encode()
    return parse_node(documents, node="memory://x/a", settings=settings or Settings())


def rendered(metadata: Any) -> Any:
    return json.loads(render_node(metadata)[".zarray"])


# --- what is read ----------------------------------------------------------------------------------------------------


def test_an_array_document_is_read_member_by_member() -> None:
    metadata = parse(compressor={"id": "zlib", "level": 1}, attributes={"a": [1, None]})
    assert isinstance(metadata, ArrayMetadata)
    assert (metadata.zarr_format, metadata.shape) == (2, (10, 20))
    assert (metadata.data_type.name, metadata.dtype) == ("int32", np.dtype("int32"))
    assert metadata.chunk_grid == NamedConfig("regular", {"chunk_shape": [5, 20]})
    assert metadata.chunk_key_encoding == NamedConfig("v2", {"separator": "."})
    assert metadata.codecs == (LITTLE, NamedConfig("numcodecs.zlib", {"level": 1}))
    assert (metadata.fill_value.item(), metadata.has_fill_value) == (0, True)
    assert (metadata.attributes, metadata.dimension_names, metadata.extra) == ({"a": [1, None]}, None, {})


def test_an_array_is_rendered_to_the_document_it_was_parsed_from() -> None:
    members = {
        "dtype": [["a", ">i2"], ["b", [["c", "|S3"], ["d", "<f8", [2, 2]]]]],
        "fill_value": None,
        "order": "F",
        "filters": [{"id": "shuffle", "elementsize": 4}],
        "compressor": {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0},
        "dimension_separator": "/",
    }
    documents = render_node(parse(**members, attributes={"x": 1}))
    assert json.loads(documents[".zarray"]) == ARRAY | members
    assert json.loads(documents[".zattrs"]) == {"x": 1}


def test_attributes_come_first_and_have_a_document_even_if_empty() -> None:
    documents = render_node(parse())
    assert list(documents) == [".zattrs", ".zarray"]
    assert json.loads(documents[".zattrs"]) == {}
    assert list(render_node(GroupMetadata(2))) == [".zattrs", ".zgroup"]


@pytest.mark.parametrize(
    ("members", "codecs"),
    [
        ({"dtype": ">f8"}, [NamedConfig("bytes", {"endian": "big"})]),
        ({"dtype": "|u1"}, [NamedConfig("bytes")]),
        ({"dtype": "|S3", "fill_value": ""}, [NamedConfig("bytes")]),
        ({"dtype": ">U3", "fill_value": ""}, [NamedConfig("bytes", {"endian": "big"})]),
        ({"order": "F"}, [NamedConfig("transpose", {"order": [1, 0]}), LITTLE]),
        ({"order": "F", "shape": [10], "chunks": [5]}, [LITTLE]),
        (
            {"filters": [{"id": "delta", "dtype": "<i4"}], "compressor": {"id": "bz2", "level": 3}},
            [
                NamedConfig("v2_elements", {"dtype": "<i4", "filters": [{"id": "delta", "dtype": "<i4"}]}),
                NamedConfig("numcodecs.bz2", {"level": 3}),
            ],
        ),
        (
            {"dtype": [["a", "<i2"]], "fill_value": None},
            [NamedConfig("v2_elements", {"dtype": [["a", "<i2"]], "filters": []})],
        ),
        (
            {"compressor": {"id": "zfpy", "mode": 4}},
            [NamedConfig("v2_elements", {"dtype": "<i4", "filters": [], "compressor": {"id": "zfpy", "mode": 4}})],
        ),
    ],
)
def test_order_type_filters_and_compressor_are_one_chain_of_codecs(
    members: dict[str, Any], codecs: list[NamedConfig]
) -> None:
    metadata = parse(**members)
    assert metadata.codecs == tuple(codecs)
    again = rendered(metadata)
    expected = ARRAY | members | {"dimension_separator": "."}
    if len(expected["shape"]) == 1:
        expected["order"] = "C"
    assert again == expected


@pytest.mark.parametrize(
    ("filters", "name", "kind"),
    [
        (["vlen-utf8"], "string", None),
        (["vlen-bytes"], "variable_length_bytes", "O"),
        (["json2"], "object", "O"),
        (["categorize", "shuffle"], "object", "O"),
    ],
)
def test_the_first_filter_defines_the_type_of_objects(filters: list[str], name: str, kind: str | None) -> None:
    metadata = parse(dtype="|O", fill_value=None, filters=[{"id": each} for each in filters])
    assert metadata.data_type.name == name
    assert kind in (None, metadata.dtype.kind)
    assert metadata.codecs[0].name == "v2_elements"
    assert rendered(metadata)["dtype"] == "|O"


@pytest.mark.parametrize("name", ["json2", "msgpack2"])
def test_objects_with_stored_shape_are_not_transposed(name: str) -> None:
    members = {"dtype": "|O", "fill_value": None, "filters": [{"id": name}], "order": "F"}
    metadata = parse(**members)
    assert [codec.name for codec in metadata.codecs] == ["v2_elements"]
    assert metadata.codecs[0].configuration["order"] == "F"
    assert rendered(metadata) == ARRAY | members | {"dimension_separator": "."}


def test_null_means_no_fill_value() -> None:
    metadata = parse(fill_value=None)
    assert (metadata.has_fill_value, metadata.fill_value.item()) == (False, 0)
    assert rendered(metadata)["fill_value"] is None
    assert metadata != parse(fill_value=0)


def test_arrays_of_no_dimensions_are_read() -> None:
    metadata = parse(shape=[], chunks=[], order="F")
    assert (metadata.shape, metadata.codecs) == ((), (LITTLE,))


def test_dimension_names_are_an_attribute() -> None:
    metadata = parse(attributes={"_ARRAY_DIMENSIONS": ["y", "x"], "a": 1})
    assert metadata.dimension_names == ("y", "x")
    assert json.loads(render_node(metadata)[".zattrs"]) == {"_ARRAY_DIMENSIONS": ["y", "x"], "a": 1}
    assert metadata.with_attributes({}).dimension_names is None
    assert metadata.with_attributes({"_ARRAY_DIMENSIONS": ["v", "u"]}).dimension_names == ("v", "u")
    for other in (["x"], "xy", [1, 2], {"y": "x"}):
        assert parse(attributes={"_ARRAY_DIMENSIONS": other}).dimension_names is None


def test_a_group_is_a_zgroup() -> None:
    documents = {".zgroup": b'{"zarr_format": 2}', ".zattrs": b'{"title": "x"}'}
    metadata = parse_node(documents, node="memory://x")
    assert metadata == GroupMetadata(2, {"title": "x"})
    assert parse_node(render_node(metadata), node="memory://x") == metadata
    assert parse_node({".zattrs": b"{}"}, node="memory://x") is None


def test_members_of_nczarr_are_stored_again_unless_strict() -> None:
    extra = {"_nczarr_array": {"dimensions": ["x"], "storage": "chunked"}, "_NCZARR_ARRAY": {}}
    metadata = parse(**extra)
    assert metadata.extra == extra
    assert rendered(metadata).items() >= extra.items()
    group = parse_node({".zgroup": b'{"zarr_format": 2, "_NCZARR_GROUP": {"dims": {}}}'}, node="memory://x")
    assert group is not None
    assert json.loads(render_node(group)[".zgroup"])["_NCZARR_GROUP"] == {"dims": {}}
    with pytest.raises(InvalidMetadataError) as caught:
        parse(STRICT, **extra)
    assert caught.value.member == "_nczarr_array"


def test_nan_tokens_in_attributes_are_parsed_unless_strict() -> None:
    metadata = parse(attributes={"missing": math.nan})
    assert math.isnan(metadata.attributes["missing"])
    assert b"NaN" in render_node(metadata)[".zattrs"]
    with pytest.raises(InvalidMetadataError) as caught:
        parse(STRICT, attributes={"missing": math.nan})
    assert (caught.value.key, caught.value.member) == (".zattrs", "missing")


# --- leniency --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "members",
    [
        {"filters": []},
        {"filters": [{"id": "shuffle", "elementsize": 0}]},
        {"compressor": {"id": "lzma", "delta": None}},
        {"compressor": {"id": "blosc", "cname": "zstd", "shuffle": "NONE"}},
        {"fill_value": 0.0},
        {"fill_value": "0"},
        {"node_type": "array"},
    ],
)
def test_nonstandard_members_of_real_writers_are_parsed_unless_strict(members: dict[str, Any]) -> None:
    metadata = parse(**members)
    again = rendered(metadata)
    assert again["filters"] in (None, [{"id": "shuffle", "elementsize": 4}])
    assert again["compressor"] in (None, {"id": "lzma"}, {"id": "blosc", "cname": "zstd", "shuffle": 0})
    assert again["fill_value"] == 0
    with pytest.raises(InvalidMetadataError):
        parse(STRICT, **members)


@pytest.mark.parametrize("name", ["compressor", "filters", "fill_value"])
def test_an_absent_member_means_null_unless_strict(name: str) -> None:
    data = json.dumps({key: value for key, value in ARRAY.items() if key != name}).encode()
    metadata = parse_node({".zarray": data}, node="memory://x")
    assert metadata is not None
    assert rendered(metadata)[name] is None
    with pytest.raises(InvalidMetadataError) as caught:
        parse_node({".zarray": data}, node="memory://x", settings=STRICT)
    assert caught.value.member == name


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["zarr_format", "shape", "chunks", "dtype", "order"])
def test_a_missing_member_is_named(name: str) -> None:
    data = json.dumps({key: value for key, value in ARRAY.items() if key != name}).encode()
    with pytest.raises(InvalidMetadataError) as caught:
        parse_node({".zarray": data}, node="memory://x/a")
    assert (caught.value.member, caught.value.key, caught.value.node) == (name, ".zarray", "memory://x/a")


@pytest.mark.parametrize(
    ("member", "value", "place"),
    [
        *(("zarr_format", value, "") for value in (1, 3, 2.0, True, "2", None)),
        *(("shape", value, "") for value in (None, 10, "10", {})),
        *(("shape", [10, value], "[1]") for value in (-1, True, 16.0, "16", None)),
        *(("chunks", value, "") for value in (None, 5, [5], [5, 5, 5])),
        *(("chunks", [5, value], "[1]") for value in (0, -1, True, 5.0)),
        *(("dtype", value, "") for value in (None, 7, {}, "<q9", "int32", "i4", "|i4", "", [])),
        *(("order", value, "") for value in (None, "A", "c", 1)),
        *(("filters", value, "") for value in ({}, "delta", 1)),
        ("filters", ["delta"], "[0]"),
        ("filters", [{"id": 1}], "[0].id"),
        ("filters", [{}], "[0].id"),
        *(("compressor", value, "") for value in ("zlib", [], 1)),
        ("compressor", {"level": 1}, ".id"),
        *(("dimension_separator", value, "") for value in ("-", None, 1, "/../")),
        *(("fill_value", value, "") for value in ("abc", True, [0], {}, 2**31, 0.5)),
    ],
)
def test_invalid_members_are_rejected_with_their_path(member: str, value: Any, place: str) -> None:
    with pytest.raises(InvalidMetadataError) as caught:
        parse(STRICT, **{member: value})
    assert caught.value.member == member + place


@pytest.mark.parametrize(
    ("members", "place"),
    [
        ({"shape": [10, 2**70]}, "shape[1]"),
        ({"shape": [1] * 40, "chunks": [1] * 40}, "shape"),
        ({"dtype": "|S2147483647"}, "dtype"),
        ({"dtype": "|V9999999999"}, "dtype"),
        ({"filters": [{"id": "delta"}] * 100_000}, "filters"),
        ({"compressor": {"id": "x" * 100_000}}, "compressor.id"),
    ],
)
def test_members_that_exceed_the_limits_are_rejected_as_unsupported(members: dict[str, Any], place: str) -> None:
    with pytest.raises(UnsupportedMetadataError) as caught:
        parse(**members)
    assert caught.value.member == place
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("name", ["pickle", "Pickle", "PICKLE", "numcodecs.pickle", " pickle"])
def test_pickle_is_rejected_in_any_member_and_spelling(name: str) -> None:
    pickle = {"id": name, "protocol": 5}
    for members in (
        {"dtype": "|O", "filters": [pickle]},
        {"dtype": "|O", "filters": [{"id": "vlen-utf8"}, pickle]},
        {"compressor": pickle},
    ):
        with pytest.raises(UnsupportedMetadataError, match="never"):
            parse(**members)


def test_objects_without_a_filter_are_rejected() -> None:
    for filters in (None, []):
        with pytest.raises(InvalidMetadataError) as caught:
            parse(dtype="|O", filters=filters)
        assert caught.value.member == "filters"


@pytest.mark.parametrize("member", ["fill_value", "compressor"])
@pytest.mark.parametrize("token", ["NaN", "Infinity", "1e999"])
def test_numbers_that_json_lacks_are_rejected_in_members(member: str, token: str) -> None:
    text = json.dumps({key: value for key, value in (ARRAY | {"dtype": "<f8"}).items() if key != member})
    value = token if member == "fill_value" else f'{{"id": "zlib", "level": {token}}}'
    with pytest.raises(InvalidMetadataError) as caught:
        parse_node({".zarray": f'{text[:-1]}, "{member}": {value}}}'.encode()}, node="memory://x", settings=STRICT)
    assert str(caught.value.member).startswith(member)


def test_duplicate_members_are_rejected() -> None:
    text = json.dumps(ARRAY)
    with pytest.raises(InvalidMetadataError) as caught:
        parse_node({".zarray": f'{text[:-1]}, "shape": [1, 1]}}'.encode()}, node="memory://x")
    assert caught.value.member == "shape"


def test_metadata_that_v2_cannot_represent_are_not_written() -> None:
    metadata = parse()
    fields: dict[str, Any] = {name: getattr(metadata, name) for name in ArrayMetadata.__dataclass_fields__}
    for changed in (
        {"codecs": (NamedConfig("sharding_indexed"),)},
        {"codecs": (LITTLE, NamedConfig("zstd"))},
        {"codecs": (LITTLE, NamedConfig("numcodecs.zlib"), NamedConfig("numcodecs.zlib"))},
        {"codecs": ()},
        {"codecs": (NamedConfig("transpose", {"order": [0, 2, 1]}), LITTLE), "shape": (1, 1, 1)},
        {"chunk_grid": NamedConfig("rectilinear")},
        {"chunk_key_encoding": NamedConfig("default")},
        {"shape": (-1, 2)},
    ):
        with pytest.raises(MetadataError):
            render_node(ArrayMetadata(**(fields | changed)))


# --- round trips -----------------------------------------------------------------------------------------------------

CODECS: st.SearchStrategy[Any] = st.sampled_from(
    [{"id": "zlib", "level": 1}, {"id": "blosc", "cname": "zstd"}, {"id": "zfpy", "mode": 1}, {"id": "bz2"}]
)
FLOAT: st.SearchStrategy[Any] = st.floats(allow_nan=False, width=32) | st.just("NaN")
TYPES: st.SearchStrategy[tuple[Any, Any]] = st.one_of(
    st.tuples(st.sampled_from(["<i4", ">i4"]), st.integers(-(2**31), 2**31 - 1)),
    st.tuples(st.sampled_from(["<f4", ">f4", "<f8", ">f8"]), FLOAT),
    st.tuples(st.sampled_from(["<c8", ">c16"]), st.lists(FLOAT, min_size=2, max_size=2)),
    st.tuples(st.just("|b1"), st.booleans()),
    st.tuples(st.sampled_from(["|S5", "|S6"]), st.sampled_from(["", "YWI=", "YWJjZGU="])),
    st.tuples(
        st.sampled_from(["<U3", ">U3"]), st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=3)
    ),
    st.tuples(st.sampled_from(["<M8[ns]", ">m8[25s]", "<M8[D]"]), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just([["a", ">i2"], ["b", "<f4", [2]]]), st.just("AAECAwQFBgcICQ==")),
    st.tuples(st.sampled_from(["bfloat16", "float8_e5m2"]), st.sampled_from([0.0, 1.0, "Infinity"])),
)


@given(
    data_type=TYPES,
    null=st.booleans(),
    shape=st.lists(st.integers(0, 2**40), max_size=4),
    order=st.sampled_from("CF"),
    compressor=st.none() | CODECS,
    filters=st.none() | st.lists(CODECS, min_size=1, max_size=3),
    separator=st.sampled_from("./"),
    attributes=st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=3), st.none() | st.integers()),
)
def test_rendered_documents_parse_to_the_same_metadata(
    data_type: tuple[Any, Any],
    null: bool,
    shape: list[int],
    order: str,
    compressor: Any,
    filters: Any,
    separator: str,
    attributes: dict[str, Any],
) -> None:
    dtype, fill = data_type
    if isinstance(fill, float) and math.isinf(fill):
        fill = "Infinity" if fill > 0 else "-Infinity"
    if isinstance(fill, list):
        fill = [part if part == "NaN" or math.isfinite(part) else "-Infinity" for part in fill]
    metadata = parse(
        STRICT,
        attributes,
        dtype=dtype,
        fill_value=None if null else fill,
        shape=shape,
        chunks=[max(1, length // 2) for length in shape],
        order=order,
        compressor=compressor,
        filters=filters,
        dimension_separator=separator,
    )
    documents = render_node(metadata)
    assert parse_node(documents, node="memory://x", settings=STRICT) == metadata
    assert render_node(metadata) == documents
