"""JSON documents are parsed within limits and rendered for all readers."""

from __future__ import annotations

import json
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from aiozarr.errors import AiozarrError, InvalidMetadataError, LimitError
from aiozarr.metadata.document import check_json, dump_document, load_document


def load(text: str | bytes, max_bytes: int = 1 << 20) -> dict[str, Any]:
    return load_document(text.encode() if isinstance(text, str) else text, max_bytes=max_bytes).members


def nested(levels: int) -> str:
    """A document of that many levels, its own object counted."""
    return '{"a":' + "[" * (levels - 1) + "]" * (levels - 1) + "}"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"{}{}", "not JSON"),
        (b"[]", "not a JSON object"),
        (b'"zarr_format"', "not a JSON object"),
        (b"null", "not a JSON object"),
        (b"\xef\xbb\xbf{}", "BOM"),
        ("{}".encode("utf-16"), "UTF-8"),
        ("{}".encode("utf-16-le"), "not JSON"),
        (b'{"a": "\xff"}', "not UTF-8.* at byte 7"),
        (b'{"a": "\xed\xa0\x80"}', "not UTF-8"),
        (b'{"a": "\0"}', "not JSON"),
        (b"{}\0", "not JSON"),
        (b'{"a": ' + b"9" * 4301 + b"}", "4300 digits"),
        (b'{"a": -' + b"9" * 4301 + b"}", "4300 digits"),
        (nested(201).encode(), "200 levels"),
        (nested(100_000).encode(), "200 levels"),
        (b"[" * 100_000, "200 levels"),
        (b'{"a":' * 100_000, "200 levels"),
        (b"}" * 300 + b"{" * 300, "not JSON"),
        (b'{"' + b"[" * 300, "not JSON"),
    ],
)
def test_invalid_documents_are_rejected(data: bytes, words: str) -> None:
    with pytest.raises(InvalidMetadataError, match=words):
        load(data)


@pytest.mark.parametrize(
    "text",
    [
        nested(200),
        '{"a": [' + "[]," * 500 + "1]}",
        json.dumps({"a": "[" * 500 + '\\"' + "{" * 500}),
        json.dumps({'\\"[\\\\"{' * 300 + "\\" * number: ["{" * 300 + "\\" * number] for number in range(4)}),
        json.dumps({"a": ["[" * (1 << 20), "]" * 300, "\\", "[" * 300]}),
    ],
)
def test_depth_counts_levels_and_neither_siblings_nor_brackets_in_strings(text: str) -> None:
    assert load(text, max_bytes=len(text)) == json.loads(text)


def test_integers_of_4300_digits_are_exact() -> None:
    digits = "-" + "7" * 4300
    assert load(f'{{"a": {digits}}}') == {"a": int(digits)}


def test_any_buffer_is_read() -> None:
    assert load_document(memoryview(b'{"a": 1}'), max_bytes=8).members == {"a": 1}
    assert load_document(bytearray(b'{"a": 1}'), max_bytes=8).members == {"a": 1}


def test_a_document_above_the_limit_is_rejected_before_it_is_parsed() -> None:
    with pytest.raises(LimitError) as caught:
        load(b"[" * 101, max_bytes=100)
    assert (caught.value.limit, caught.value.value, caught.value.allowed) == ("max_metadata_bytes", 101, 100)


def at_depth(frames: int, function: Callable[[], Any]) -> Any:
    return function() if frames <= 0 else at_depth(frames - 1, function)


def test_the_depth_limit_is_independent_of_the_stack_of_the_caller() -> None:
    deep = sys.getrecursionlimit() - len_of_stack() - 120
    assert at_depth(deep, lambda: load(nested(200))) == json.loads(nested(200))
    tree = json.loads(nested(200))
    assert json.loads(at_depth(deep, lambda: dump_document(tree))) == tree
    with pytest.raises(InvalidMetadataError, match="200 levels"):
        at_depth(deep, lambda: load(nested(100_000)))


def test_a_deep_document_of_many_strings_takes_little_memory_to_refuse() -> None:
    data = b'{"a":' * 1_000_000
    tracemalloc.start()
    try:
        with pytest.raises(InvalidMetadataError, match="200 levels"):
            load(data, max_bytes=len(data))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10 * len(data)


def len_of_stack() -> int:
    frame, count = sys._getframe(), 0
    while frame is not None:
        frame, count = frame.f_back, count + 1  # type: ignore[assignment]
    return count


def test_duplicates_are_found_and_the_last_one_wins() -> None:
    document = load_document(b'{"a": {"x": 1, "y": {"z": 1, "z": 2}}, "b": {}}', max_bytes=100)
    assert document.members == {"a": {"x": 1, "y": {"z": 2}}, "b": {}}
    check_json(document.members["b"], "b", duplicates=document.duplicates)
    with pytest.raises(InvalidMetadataError) as caught:
        check_json(document.members["a"], "a", duplicates=document.duplicates)
    assert caught.value.member == "a.y.z"
    replaced = load_document(b'{"a": {"x": 1, "x": 2}, "a": {"x": 3}}', max_bytes=100)
    assert list(replaced.duplicates.values()) == ["x", "a"]
    check_json(replaced.members["a"], "a", duplicates=replaced.duplicates)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_json_lacks_are_never_written(number: float) -> None:
    with pytest.raises(InvalidMetadataError) as caught:
        dump_document({"attributes": {"x": [0, {"y": number}]}})
    assert caught.value.member == "attributes.x[1].y"


@pytest.mark.parametrize("text", ["\ud800", "a\udfff", "\udc00\ud800"])
def test_lone_surrogates_are_written_as_the_escapes_that_they_were_read_from(text: str) -> None:
    for value in (text, [text, "é"], {text: 1}):
        data = dump_document({"attributes": value})
        assert load_document(data, max_bytes=1 << 20).members == {"attributes": value}
        with pytest.raises(InvalidMetadataError, match="surrogate") as caught:
            check_json(value, "attributes")
        str(caught.value).encode()


@pytest.mark.parametrize("value", [object(), b"x", {1: 2}, {"a": {None: 1}}, {1, 2}, 1j])
def test_other_values_than_json_are_type_errors(value: Any) -> None:
    with pytest.raises(TypeError, match="attributes"):
        dump_document({"attributes": value})


def test_rendered_documents_can_be_parsed() -> None:
    loop: list[Any] = []
    loop.append(loop)
    deepest: Any = []
    for _ in range(198):
        deepest = [deepest]
    assert load(dump_document({"a": deepest})) == {"a": deepest}
    for value in (loop, [deepest], 10**4300, -(10**4300)):
        with pytest.raises(AiozarrError):
            dump_document({"a": value})
    assert load(dump_document({"a": 10**4300 - 1})) == {"a": 10**4300 - 1}


def test_documents_are_indented_utf_8_in_the_order_given() -> None:
    expected = (
        '{\n  "b": 1,\n  "a": [\n    "é",\n    "\\u0000",\n    [\n      true,\n      null,\n      1e+300\n    ]\n  ]\n}'
    )
    assert dump_document({"b": 1, "a": ["é", "\0", (True, None, 1e300)]}) == expected.encode()


def test_a_path_in_a_message_stays_short() -> None:
    with pytest.raises(InvalidMetadataError) as caught:
        check_json({"k" * 100_000: float("nan")}, "a")
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"a": [1, 1.5e10, "1e999", "NaN", true]}', None),
        ('{"a": NaN}', "a"),
        ('{"a": [-Infinity]}', "a[0]"),
        ('{"a": 1e999}', "a"),
        ('{"a": 1E+0000400}', "a"),
        ('{"a": ' + "9" * 310 + ".0}", "a"),
        ('{"a": 1e-999}', None),
        ('{"a": "\\ud800"}', "a"),
        ('{"a": {"b": 1, "b": 2}}', "a.b"),
    ],
)
def test_a_document_checks_its_parts_equally_with_and_without_hints(text: str, fault: str | None) -> None:
    document = load_document(text.encode(), max_bytes=1000)
    for known in (document, document._replace(may_hold_surrogates=True, may_hold_infinities=True)):
        if fault is None:
            known.check(known.members["a"], "a")
        else:
            with pytest.raises(InvalidMetadataError) as caught:
                known.check(known.members["a"], "a")
            assert caught.value.member == fault
