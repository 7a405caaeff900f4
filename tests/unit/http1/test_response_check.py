"""The head of a response: which header counts, and the decision over requests, statuses and headers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiozarr.errors import ChangedError, LimitError, ShortReadError, StoreError, UnsupportedOperationError
from aiozarr.http1.response_check import (
    MAX_CUT_BYTES,
    NEEDS_FALLBACK,
    NO_VALUE,
    Accept,
    Expectation,
    NeedsFallback,
    NoValue,
    ParsedHead,
    ResponseAction,
    check_response,
    etag_of,
    parse_leniently,
)
from aiozarr.model import ByteRange, Range, Suffix, resolve_range


def test_of_a_header_that_comes_twice_the_last_counts_but_hashes_are_put_together() -> None:
    lines = ["HTTP/1.1 200 OK", "X-Goog-Hash: crc32c=AAAAAA==", "A: 1", "x-goog-hash: md5=x", "a: 2", "", ""]
    head = ParsedHead("\r\n".join(lines).encode())
    assert head.headers == {b"x-goog-hash": b"crc32c=AAAAAA==,md5=x", b"a": b"2"}


def part(first: int, last: int, size: object, **headers: str) -> dict[bytes, bytes]:
    """Return the headers of a 206."""
    told = {"content-range": f"bytes {first}-{last}/{size}", "content-length": str(last - first + 1), **headers}
    return {name.replace("_", "-").encode(): value.encode() for name, value in told.items()}


def accepted(verdict: ResponseAction) -> Accept:
    """Return the verdict, which accepts."""
    assert isinstance(verdict, Accept)
    return verdict


sizes = st.integers(0, 10_000)
ranges = st.one_of(
    st.builds(Range, st.integers(0, 12_000), st.none() | st.integers(1, 12_000)),
    st.builds(Suffix, st.integers(1, 12_000)),
)


@given(size=sizes, wanted=ranges)
def test_an_answer_that_names_exactly_the_range_asked_for_is_accepted(size: int, wanted: ByteRange) -> None:
    start, stop = resolve_range(size, wanted)
    if start == stop:
        return
    verdict = accepted(check_response(Expectation(wanted), 206, part(start, stop - 1, size)))
    assert (verdict.exact, verdict.size, verdict.cut) == (stop - start, size, False)


@given(size=sizes, wanted=ranges, first=st.integers(0, 11_000), last=st.integers(0, 11_000))
def test_an_answer_that_names_any_other_range_is_refused(size: int, wanted: ByteRange, first: int, last: int) -> None:
    start, stop = resolve_range(size, wanted)
    if (first, last + 1) != (start, stop) and first <= last:
        assert isinstance(check_response(Expectation(wanted), 206, part(first, last, size)), StoreError)


@given(size=st.integers(1, 10_000), wanted=ranges)
def test_a_whole_object_in_place_of_a_small_range_is_cut(size: int, wanted: ByteRange) -> None:
    verdict = accepted(check_response(Expectation(wanted), 200, {b"content-length": str(size).encode()}))
    assert (verdict.exact, verdict.size, verdict.cut) == (size, size, True)


def test_fewer_bytes_than_asked_for_are_a_short_read_that_may_be_repeated() -> None:
    verdict = check_response(Expectation(Range(10, 20)), 206, part(10, 19, 100))
    assert isinstance(verdict, ShortReadError)
    assert verdict.retryable


def test_a_part_of_unknown_total_is_accepted_only_at_full_length() -> None:
    assert accepted(check_response(Expectation(Range(10, 20)), 206, part(10, 29, "*"))).size is None
    assert isinstance(check_response(Expectation(Range(10, 20)), 206, part(10, 19, "*")), ShortReadError)
    assert isinstance(check_response(Expectation(Range(10, 20)), 206, part(11, 30, "*")), StoreError)
    assert accepted(check_response(Expectation(Range(10)), 206, part(10, 99, "*"))).exact == 90
    assert accepted(check_response(Expectation(Suffix(5)), 206, part(95, 99, "*"))).exact == 5
    assert isinstance(check_response(Expectation(Suffix(5)), 206, part(96, 99, "*")), StoreError)


def test_the_request_names_the_statuses_that_carry_a_value() -> None:
    assert check_response(Expectation(), 207, {}) == NO_VALUE
    multistatus = Expectation(max_bytes=100, value_statuses=frozenset({207}))
    assert accepted(check_response(multistatus, 207, {})).limit == 100
    assert isinstance(check_response(multistatus, 207, {b"content-length": b"101"}), LimitError)
    assert check_response(multistatus, 200, {}) == NO_VALUE


def test_status_200_with_a_content_range_counts_as_a_part_if_it_is_exact() -> None:
    assert accepted(check_response(Expectation(Range(2, 3)), 200, part(2, 4, 10))).exact == 3
    assert isinstance(check_response(Expectation(Range(2, 3)), 200, part(0, 2, 10)), StoreError)
    assert isinstance(check_response(Expectation(None), 200, part(0, 8, 10)), StoreError)


@pytest.mark.parametrize("status", [200, 206])
def test_a_part_that_is_all_of_the_object_counts_as_the_object(status: int) -> None:
    assert accepted(check_response(Expectation(None), status, part(0, 9, 10))).exact == 10
    whole = accepted(check_response(Expectation(Range(2, 3)), status, part(0, 9, 10)))
    assert (whole.exact, whole.cut) == (10, True)
    for wrong in (part(0, 9, "*"), part(0, 9, 11), part(1, 9, 10)):
        assert isinstance(check_response(Expectation(None), status, wrong), StoreError)


@pytest.mark.parametrize("label", [b"", b"identity", b"aws-chunked", b"aws-chunked, identity", b" AWS-Chunked,"])
@pytest.mark.parametrize("keep_encoding", [True, False])
def test_labels_that_change_no_byte_are_no_encoding(label: bytes, keep_encoding: bool) -> None:
    headers = {**part(2, 4, 10), b"content-encoding": label}
    assert accepted(check_response(Expectation(Range(2, 3), keep_encoding=keep_encoding), 206, headers)).exact == 3
    assert accepted(check_response(Expectation(), 200, {b"content-encoding": label})).exact is None


@pytest.mark.parametrize("label", [b"gzip", b"br", b"aws-chunked,gzip"])
def test_a_range_is_of_stored_bytes_where_a_store_never_encodes(label: bytes) -> None:
    headers = {**part(2, 4, 10), b"content-encoding": label}
    assert accepted(check_response(Expectation(Range(2, 3), keep_encoding=True), 206, headers)).exact == 3
    assert isinstance(check_response(Expectation(Range(2, 3)), 206, headers), StoreError)
    assert check_response(Expectation(), 200, {b"content-encoding": label}) == NEEDS_FALLBACK


CARELESS = {
    "lines without a CR": b"HTTP/1.1 200 OK\nX: a\nContent-Length: 5\n\n",
    "some lines without a CR": b"HTTP/1.1 200 OK\r\nX: a\nContent-Length: 5\n\r\n",
    "a folded line": b"HTTP/1.1 200 OK\r\nX: a\r\n  b\r\nContent-Length: 5\r\n\r\n",
    "a control character": b"HTTP/1.1 200 OK\r\nX: a\x01b\r\nContent-Length: 5\r\n\r\n",
}


@pytest.mark.parametrize("head", CARELESS.values(), ids=CARELESS.keys())
def test_careless_heads_are_read_and_their_connection_is_not_used_again(head: bytes) -> None:
    parsed, end = parse_leniently(b"..." + head + b"\n\nbody", 3, 3 + len(head) + 6)
    assert parsed is not None
    assert (parsed.status, parsed.length, parsed.keeps_alive, end) == (200, 5, False, 3 + len(head))
    assert parse_leniently(head, 0, len(head) - 1) == (None, 0)


@pytest.mark.parametrize(
    "line", [b"X: a\x00b", b"X: a\rb", b"Content-Length: 5\r\n 6", b"Content-Length: 5\x01", b"X Y: a", b" folded"]
)
def test_heads_that_two_readers_may_understand_differently_are_refused(line: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\n" + line + b"\r\n\r\n"
    with pytest.raises(StoreError, match="not valid HTTP"):
        parse_leniently(head, 0, len(head))


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {b"content-range": b"bytes 0-4"},
        {b"content-range": b"bytes 0-4/5, 7-8/9"},
        {b"content-range": b"items 0-4/5"},
        {b"content-range": b"bytes 4-0/5"},
        {b"content-range": b"bytes 0-4/3"},
        {b"content-range": b"bytes 0-" + b"9" * 30 + b"/*"},
        {b"content-range": b"bytes 0-4/5", b"content-length": b"6"},
        {b"content-type": b"multipart/byteranges; boundary=x", b"content-length": b"200"},
    ],
)
def test_a_part_that_does_not_say_what_it_is_or_contradicts_itself_is_refused(headers: dict[bytes, bytes]) -> None:
    assert isinstance(check_response(Expectation(Range(0, 5)), 206, headers), StoreError)


def test_a_whole_object_too_big_to_cut_is_refused_unless_all_of_it_was_wanted() -> None:
    length = str(MAX_CUT_BYTES + 1).encode()
    assert isinstance(
        check_response(Expectation(Range(1, 5)), 200, {b"content-length": length}), UnsupportedOperationError
    )
    assert accepted(check_response(Expectation(Range(0)), 200, {b"content-length": length})).cut


def test_a_longer_answer_than_allowed_is_a_limit_error() -> None:
    verdict = check_response(Expectation(max_bytes=10), 200, {b"content-length": b"11"})
    assert isinstance(verdict, LimitError)
    assert (verdict.value, verdict.allowed) == (11, 10)
    assert isinstance(check_response(Expectation(Range(0, 11), max_bytes=10), 206, part(0, 10, 50)), LimitError)
    assert accepted(check_response(Expectation(max_bytes=10), 200, {})).limit == 10


@pytest.mark.parametrize("etag", ['"other"', 'W/"same"', None])
def test_an_answer_without_the_etag_asked_for_is_a_changed_error(etag: str | None) -> None:
    headers = {} if etag is None else {b"etag": etag.encode()}
    for wanted in (None, Range(0, 5)):
        assert isinstance(check_response(Expectation(wanted, '"same"'), 200, headers), ChangedError)
    assert (
        accepted(check_response(Expectation(None, '"same"'), 200, {b"etag": b'"same"', b"content-length": b"1"})).exact
        == 1
    )


@pytest.mark.parametrize("generation", [None, "8"])
def test_an_answer_without_the_generation_asked_for_is_a_changed_error(generation: str | None) -> None:
    headers = {} if generation is None else {b"x-goog-generation": generation.encode()}
    assert isinstance(check_response(Expectation(generation="7"), 200, headers), ChangedError)
    assert isinstance(check_response(Expectation(generation="7"), 200, {b"x-goog-generation": b"7"}), Accept)


def test_a_range_of_an_encoded_object_is_accepted_if_it_is_labelled_as_stored() -> None:
    headers = part(0, 3, 10, content_encoding="gzip", x_goog_stored_content_encoding="gzip")
    assert isinstance(check_response(Expectation(Range(0, 4), keep_encoding=True), 206, headers), Accept)
    assert isinstance(check_response(Expectation(Range(0, 4)), 206, headers), StoreError)
    headers[b"x-goog-stored-content-encoding"] = b"identity"
    assert isinstance(check_response(Expectation(Range(0, 4), keep_encoding=True), 206, headers), StoreError)


def test_an_encoded_range_is_refused_and_an_encoded_object_is_read_another_way() -> None:
    assert isinstance(
        check_response(Expectation(Range(0, 5)), 206, part(0, 4, 10, content_encoding="gzip")), StoreError
    )
    assert isinstance(check_response(Expectation(), 200, {b"content-encoding": b"gzip"}), NeedsFallback)
    assert (
        accepted(
            check_response(
                Expectation(keep_encoding=True), 200, {b"content-encoding": b"gzip", b"content-length": b"3"}
            )
        ).exact
        == 3
    )
    assert (
        accepted(check_response(Expectation(), 200, {b"content-encoding": b"identity", b"content-length": b"3"})).exact
        == 3
    )


@pytest.mark.parametrize("status", [204, 301, 304, 400, 401, 403, 404, 412, 416, 429, 500, 503])
def test_other_statuses_bring_no_value(status: int) -> None:
    assert isinstance(check_response(Expectation(Range(0, 5), '"x"'), status, {}), NoValue)


def test_the_answer_to_head_has_a_size_and_no_body() -> None:
    verdict = accepted(check_response(Expectation(head=True), 200, {b"content-length": b"123"}))
    assert (verdict.size, verdict.exact, verdict.limit) == (123, 0, 0)


def test_last_modified_stands_in_for_an_etag_as_a_weak_one() -> None:
    assert etag_of({b"etag": b'"a"', b"last-modified": b"x"}) == '"a"'
    assert etag_of({b"last-modified": b"Sat, 01 Aug 2026 00:00:00 GMT"}) == 'W/"Sat, 01 Aug 2026 00:00:00 GMT"'
    assert etag_of({}) is None
