"""The bytes of requests."""

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiozarr.http1.request import RequestTemplate, check_headers, conditional_headers, quote_key
from aiozarr.http1.response_check import Expectation
from aiozarr.model import Range, Suffix


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_a_quoted_key_is_plain_ascii_and_means_the_key(key: str) -> None:
    quoted = quote_key(key)
    assert unquote(quoted) == key
    assert all(c.isascii() and (c.isalnum() or c in "-._~/%") for c in quoted)


def test_ranges_are_said_as_http_says_them() -> None:
    assert conditional_headers(Expectation()) == {}
    assert conditional_headers(Expectation(Range(5, 10))) == {"Range": "bytes=5-14"}
    assert conditional_headers(Expectation(Range(5))) == {"Range": "bytes=5-"}
    assert conditional_headers(Expectation(Suffix(7))) == {"Range": "bytes=-7"}


def test_a_request_holds_the_fixed_headers_the_range_and_the_condition() -> None:
    template = RequestTemplate("host:81", {"Authorization": "Basic x"})
    assert template.render("GET", "/a?b", Expectation(Range(0, 2), '"tag"')) == (
        b"GET /a?b HTTP/1.1\r\nHost: host:81\r\nUser-Agent: aiozarr\r\nAccept: */*\r\nAccept-Encoding: identity\r\n"
        b'Authorization: Basic x\r\nRange: bytes=0-1\r\nIf-Match: "tag"\r\n\r\n'
    )
    assert template.render("HEAD", "/", Expectation(head=True)).endswith(b"Authorization: Basic x\r\n\r\n")


def test_a_weak_etag_is_never_sent() -> None:
    assert b"If-Match" not in RequestTemplate("h", {}).render("GET", "/", Expectation(etag='W/"x"'))


@pytest.mark.parametrize("etag", ['"a"\r\nX: y', '"a\n"', '"\0"'])
def test_an_etag_cannot_inject_a_header(etag: str) -> None:
    with pytest.raises(ValueError, match="control characters"):
        RequestTemplate("h", {}).render("GET", "/", Expectation(etag=etag))


@pytest.mark.parametrize(
    "headers", [{"A": "x\r\nB: y"}, {"A": "x\ny"}, {"A\r\nB": "x"}, {"": "x"}, {"A B": "x"}, {"A": "\0"}, {"A": "日本"}]
)
def test_headers_that_would_break_a_request_are_refused_without_showing_the_value(headers: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="header") as caught:
        check_headers(headers)
    assert "y" not in str(caught.value).replace("carry", "")


def test_a_generation_is_a_condition_of_its_own() -> None:
    sent = RequestTemplate("h", {}).render("GET", "/k", Expectation(generation="17")).decode()
    assert sent.endswith("x-goog-if-generation-match: 17\r\n\r\n")
    with pytest.raises(ValueError, match="generation"):
        RequestTemplate("h", {}).render("GET", "/k", Expectation(generation="1\r\nX: y"))
