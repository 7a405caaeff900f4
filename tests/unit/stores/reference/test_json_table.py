"""JSON documents of references: versions 0 and 1, and what is refused in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import aiozarr
from aiozarr.errors import InvalidMetadataError, LimitError, UnsupportedMetadataError
from aiozarr.stores import ReadOnlyStore, from_references
from aiozarr.stores.reference import table
from aiozarr.stores.reference.columns import Reference, ReferenceColumns
from aiozarr.stores.reference.json_table import from_mapping, parse
from aiozarr.stores.reference.table import LoadedReferences


def loaded(document: Any) -> LoadedReferences:
    """Return the references of a document, which a text and a mapping describe alike."""
    found = parse(json.dumps(document).encode())
    other = from_mapping(document)
    for key in document.get("refs", document):
        assert found.find(key) == other.find(key)
    return found


REFERENCES: dict[str, Any] = {
    "zarr.json": "{}",
    "a/c/0/0": ["s3://b/1.nc", 10, 5],
    "a/c/0/1": ["s3://b/1.nc", 15, 5],
    "a/c/1/0": ["s3://b/2.nc", 0, 7],
    "b/0.0": ["s3://b/1.nc", 1, 1],
    "b/12.7": ["s3://b/1.nc", 2, 1],
    "b/3": ["s3://b/1.nc", 3, 1],
    "b/01": ["s3://b/1.nc", 4, 1],
    "b/0.1/2": ["s3://b/1.nc", 5, 1],
    "2020/1/x/0": ["s3://b/1.nc", 6, 1],
    "c": ["s3://b/1.nc", 7, 1],
    "d/c": ["s3://b/1.nc"],
    "e/c/4": ["s3://b/1.nc"],
    'q"\\/é/0.0': ["s3://b/é \\.nc", 8, 0],
    "last/0": ["s3://b/1.nc", 9, 1],
    "999999999/999999999.999999999.999999999": ["s3://b/1.nc", 9, 1],
}


@pytest.mark.parametrize(
    "document", [REFERENCES, {"version": 1, "refs": REFERENCES}, {"refs": REFERENCES}], ids=range(3)
)
async def test_every_reference_is_found(document: dict[str, Any]) -> None:
    table = loaded(document)
    for key, each in REFERENCES.items():
        if isinstance(each, list):
            url, start, length = each if len(each) == 3 else (*each, 0, None)
            assert table.find(key) == Reference(url, start, length)
    for key in ("a/c/0/2", "a/c/2/0", "a/c/0", "a/c/00/0", "b/0.2", "b/12", "b/1.0/0", "x", "", "a", "a/c", "d/c/0"):
        assert table.find(key) is None
    assert {entry.key async for entry in table.scan("")} == set(REFERENCES)
    for prefix in ("", "a/", "a/c/", "a/c/0/", "b/", "2020/", "2020/1/", "x/"):
        assert {entry.key async for entry in table.scan(prefix)} == {
            key for key in REFERENCES if key.startswith(prefix)
        }
        keys, prefixes = await table.list_dir(prefix)
        names = {key[len(prefix) :].partition("/")[:2] for key in REFERENCES if key.startswith(prefix)}
        assert keys == {prefix + name for name, slash in names if not slash}
        assert prefixes == {prefix + name + slash for name, slash in names if slash}


def test_the_last_reference_of_a_key_counts() -> None:
    text = b'{"a/0.0": ["u", 1, 1], "a/0.1": ["u", 2, 1], "a/0.0": ["v", 3, 1], "z": ""}'
    assert parse(text).find("a/0.0") == Reference("v", 3, 1)


def test_a_large_table_is_columns() -> None:
    document = {f"t/{x}.{y}": ["s3://b/x.nc", x * 1000 + y, 1] for x in range(200) for y in range(200)}
    table = loaded(document)
    assert sum([columns.nbytes for columns in table.columns.values()]) == 40_000 * 20
    assert not table.single
    assert table.targets == ["s3://b/x.nc"]


def test_gaps_between_chunks_are_missing() -> None:
    table = loaded({f"t/{x}": ["u", x, 1] for x in range(0, 1_000_000, 100_003)} | {"end": ""})
    assert table.find("t/300009") == Reference("u", 300009, 1)
    assert table.find("t/300010") is None
    assert table.find("t/2000000") is None


def test_templates_are_filled_in() -> None:
    document = {
        "version": 1,
        "refs": {"a/0": ["{{u}}/1.nc", 0, 1], "a/1": ["{{ u }}/{{v}}", 0, 1], "b": ["{{v}}"], "c": "{{u}}"},
        "templates": {"u": "s3://bucket", "v": "2.nc"},
    }
    table = loaded(document)
    assert table.find("a/0") == Reference("s3://bucket/1.nc", 0, 1)
    assert table.find("a/1") == Reference("s3://bucket/2.nc", 0, 1)
    assert table.find("b") == Reference("2.nc", 0, None)
    assert table.find("c") == b"{{u}}"
    assert loaded({"a/0": ["{{u}}", 0, 1]}).find("a/0") == Reference("{{u}}", 0, 1)


@pytest.mark.parametrize(
    ("document", "error"),
    [
        ({"version": 2, "refs": {}}, "references of version 2"),
        (
            {"version": 1, "refs": {}, "gen": [{"key": "a{{i}}"}]},
            "gen' generates references with programs, which are not run; write the",
        ),
        ({"version": 1, "refs": {"a": ["{{f(x=1)}}"]}, "templates": {"f": "x"}}, "a template that is a program"),
        ({"version": 1, "refs": {}, "templates": {"f": "s3://{{c}}"}}, "is a program, which is not run"),
    ],
)
def test_programs_are_refused_with_a_reason(document: Any, error: str) -> None:
    with pytest.raises(UnsupportedMetadataError, match=error):
        parse(json.dumps(document).encode())
    with pytest.raises(UnsupportedMetadataError, match=error):
        from_mapping(document)


@pytest.mark.parametrize(
    "document",
    [
        {"version": 1, "refs": {"a": ["{{u}}"]}, "templates": {"v": "x"}},
        {"version": 1, "refs": {}, "templates": ["u"]},
        {"version": 1, "refs": {}, "templates": {"u": 1}},
        {"a": 1},
        {"a": None},
        {"a": []},
        {"a": ["u", 1]},
        {"a": ["u", 1, 2, 3]},
        {"a": ["", 1, 2]},
        {"a": [None, 1, 2]},
        {"a": ["u", -1, 2]},
        {"a": ["u", 1, -2]},
        {"a": ["u", 1.5, 2]},
        {"a": ["u", True, 2]},
        {"a": ["u", "1", "2"]},
        {"a": "base64:x"},
        {"a/0": ["u", 1, None]},
    ],
    ids=str,
)
def test_invalid_references_are_refused(document: Any) -> None:
    for make in (lambda: parse(json.dumps(document).encode()), lambda: from_mapping(document)):
        with pytest.raises(InvalidMetadataError):
            make()


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"{",
        b'{"a"',
        b'{"a":',
        b'{"a": ""',
        b'{"a": "",}',
        b'{"a/0": ["u", 1, 2],}',
        b'{"a/0": ["u", 1, 2] "b": ""}',
        b'{"a/0": ["u", 01, 2], "b": ""}',
        b'{"a": ""} x',
        b'{"a": "\xff"}',
        b'{"refs": {"a": ""}, ',
        b'{a: ""}',
        b'{"a": ' + b"[" * 100_000,
    ],
    ids=range(15),
)
def test_documents_that_are_no_json_are_refused(text: bytes) -> None:
    with pytest.raises(InvalidMetadataError):
        parse(text)


def test_empty_documents_are_empty_tables() -> None:
    for text in (b"{}", b" { } ", b'{"version": 1, "refs": {}}'):
        assert parse(text).find("zarr.json") is None


@pytest.mark.parametrize(
    "document",
    [
        {"a/0": ["u", 2**63, 1]},
        {"a/0": ["u", 2**63 - 1, 1]},
        {"a/0": ["u", 999_999_999_999_999_999, 9_000_000_000_000_000_000]},
        {"a/0": ["u" * 10_000, 0, 1]},
        {"version": 1, "refs": {"a": ["{{u}}" * 1000]}, "templates": {"u": "x" * 1_000_000}},
    ],
    ids=range(5),
)
def test_a_hostile_table_meets_a_limit(document: Any) -> None:
    with pytest.raises(LimitError):
        parse(json.dumps(document).encode())


def test_the_number_of_references_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiozarr.stores.reference.columns.MAX_REFERENCES", 100)
    monkeypatch.setattr("aiozarr.stores.reference.table.MAX_SINGLE_VALUES", 100)
    for document in ({f"a/{x}": ["u", x, 1] for x in range(101)}, {f"a{x}": "" for x in range(101)}):
        with pytest.raises(LimitError):
            parse(json.dumps(document).encode())


@pytest.mark.parametrize("step", [1, 2, 3, 50])
@pytest.mark.parametrize("indent", [None, 1])
def test_runs_of_plain_references_equal_the_parsed_document(step: int, indent: int | None) -> None:
    odd: list[Any] = ["text", "base64:AAAA", ["s3://b/a]\\,.nc", 3, 4], ["s3://b/é\n.nc", 1, 2], ["s3://b/whole.nc"]]
    refs: dict[str, Any] = {}
    for number in range(3000):
        plain = [f"s3://b/{number % 7}],.nc", number, 10]
        refs[f"t/{number}.{number % 3}"] = odd[number % 5] if number % step == step - 1 else plain
    parsed = parse(json.dumps({"version": 1, "refs": refs}, indent=indent).encode())
    expected = from_mapping({"version": 1, "refs": refs})
    assert [parsed.find(key) for key in refs] == [expected.find(key) for key in refs]


@pytest.mark.parametrize(
    "text",
    [
        '{"a/0": ["u", 1, 2],\u00a0"a/1": ["u", 1, 2]}',
        '{"a/0": ["u", 1, 2], "a/1" ["u", 1, 2], "a/2": ["u", 1, 2]}',
        '{"a/0": ["u", 01, 2], "a/1": ["u", 1, 2]}',
        '{"a/0": ["u", 1, 2]], "a/1": ["u", 1, 2]}',
        '{"a/0": ["u" 1, 2], "a/1": ["u", , 1, 2]}',
        '{"a/0": ["u\t", 1, 2], "a/1": ["u", 1, 2]}',
    ],
)
def test_a_run_is_no_more_lenient_than_json(text: str) -> None:
    with pytest.raises(InvalidMetadataError):
        parse(text.encode())


@pytest.mark.parametrize("number", ["9" * 4300, "9" * 5000, "-" + "9" * 4300], ids=range(3))
def test_numbers_of_thousands_of_digits_are_refused(number: str) -> None:
    for text in (f'{{"a/0": ["u", {number}, 1], "a/1": ["u", 1, 2]}}', f'{{"version": {number}, "refs": {{}}}}'):
        with pytest.raises((InvalidMetadataError, LimitError, UnsupportedMetadataError)):
            parse(text.encode())


@pytest.mark.parametrize("sign", [1, -1])
def test_a_mapping_with_a_number_that_cannot_be_printed_is_refused(sign: int) -> None:
    for document in ({"a/0": ["u", sign * 10**5000, 1]}, {"version": sign * 10**5000, "refs": {}}):
        with pytest.raises((InvalidMetadataError, LimitError, UnsupportedMetadataError)):
            from_mapping(document)


def test_the_count_of_references_is_kept_while_families_are_added(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = 0
    length = ReferenceColumns.__len__

    def count(columns: ReferenceColumns) -> int:
        nonlocal counted
        counted += 1
        return length(columns)

    monkeypatch.setattr(ReferenceColumns, "__len__", count)
    parse(json.dumps({f"array{number}/0": ["u", 0, 1] for number in range(1000)}).encode())
    assert counted <= 4000


def test_templates_do_not_make_a_small_document_large() -> None:
    document = {
        "version": 1,
        "templates": {"u": "s3://bucket/" + "x" * 4000},
        "refs": {f"v/{i}": [f"{{{{u}}}}{i}", 0, 1] for i in range(1000)},
    }
    with pytest.raises(LimitError, match="more than 16 times as long"):
        parse(json.dumps(document).encode())
    document["templates"] = {"u": "s3://bucket/" + "x" * 100}
    assert len(parse(json.dumps(document).encode()).targets) == 1000


def test_the_number_of_key_families_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    document = {f"g{i}/0": ["u", 0, 4] for i in range(100)}
    assert len(parse(json.dumps(document).encode()).columns) == 100
    monkeypatch.setattr(table, "MAX_FAMILIES", 99)
    with pytest.raises(LimitError, match="more than 99 arrays"):
        parse(json.dumps(document).encode())


@pytest.mark.parametrize("wrapped", [False, True])
async def test_max_metadata_bytes_bounds_a_document_of_references(tmp_path: Path, wrapped: bool) -> None:
    array = {"zarr_format": 2, "shape": [4], "chunks": [4], "dtype": "|u1"}
    array |= {"compressor": None, "filters": None, "fill_value": 0, "order": "C"}
    references = {".zarray": json.dumps(array)} | {f"g{i}/v/0": [f"u{i}", 0, 4] for i in range(1000)}
    (tmp_path / "refs.json").write_text(json.dumps(references))
    store = from_references(tmp_path / "refs.json")
    target = ReadOnlyStore(store) if wrapped else store
    with pytest.raises(LimitError, match="max_metadata_bytes"):
        await aiozarr.open_array(target, settings=aiozarr.Settings(max_metadata_bytes=10_000))
    assert (await aiozarr.open_array(target)).shape == (4,)
