"""Statuses and error documents become typed errors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiozarr.errors import (
    ChangedError,
    PermissionDeniedError,
    StoreError,
    ThrottledError,
    UnauthenticatedError,
    UnsupportedOperationError,
)
from aiozarr.stores.http.object_client import RETRY_AFTER_CAP, error_code, error_for, retry_after


def document(code: str, message: str = "Words.") -> bytes:
    """Return an error document of S3."""
    return f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message></Error>".encode()


@pytest.mark.parametrize(
    ("status", "body", "kind", "retryable"),
    [
        (304, b"", StoreError, False),
        (400, document("ExpiredToken"), UnauthenticatedError, False),
        (400, document("RequestTimeout"), StoreError, True),
        (400, b"", StoreError, False),
        (401, b"", UnauthenticatedError, False),
        (403, document("ExpiredToken"), UnauthenticatedError, False),
        (403, document("AccessDenied"), PermissionDeniedError, False),
        (403, b"", PermissionDeniedError, False),
        (404, document("NoSuchBucket"), StoreError, False),
        (405, b"", UnsupportedOperationError, False),
        (408, b"", StoreError, True),
        (409, document("ConditionalRequestConflict"), StoreError, True),
        (412, b"", ChangedError, False),
        (416, b"", StoreError, False),
        (429, b"", ThrottledError, True),
        (500, b"", StoreError, True),
        (501, document("NotImplemented"), UnsupportedOperationError, False),
        (502, b"", StoreError, True),
        (503, document("SlowDown"), ThrottledError, True),
        (504, b"", StoreError, True),
        (302, b"", StoreError, False),
        (505, b"", StoreError, False),
    ],
)
def test_a_status_and_its_code_decide_the_error(status: int, body: bytes, kind: type, retryable: bool) -> None:
    error = error_for(status, {}, body)
    assert type(error) is kind
    assert (error.status, error.retryable) == (status, retryable)


def test_a_304_without_a_condition_is_no_redirect() -> None:
    assert error_for(304, {}, b"").message == "the server says 'not modified' to a request without a condition"


def test_an_error_carries_code_request_id_and_the_wait_asked_for() -> None:
    error = error_for(503, {b"retry-after": b"7", b"x-amz-request-id": b"ID1"}, document("SlowDown"))
    assert (error.retry_after, error.request_id) == (7.0, "ID1")
    assert "SlowDown" in str(error)
    assert "Words." in str(error)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("InvalidAccessKeyId", "'key'"),
        ("SignatureDoesNotMatch", "'secret'"),
        ("InvalidToken", "'token'"),
        ("AuthenticationFailed", "credentials"),
    ],
)
def test_credentials_that_are_not_accepted_are_told_from_a_refusal(code: str, words: str) -> None:
    error = error_for(403, {}, document(code))
    assert type(error) is UnauthenticatedError
    assert words in str(error)
    assert code in str(error)


def test_the_words_about_a_refused_signature_are_left_out_because_they_repeat_it() -> None:
    error = error_for(403, {}, document("SignatureDoesNotMatch", "AKIAEXAMPLE"))
    assert "AKIAEXAMPLE" not in str(error)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, None),
        (b"0", 0.0),
        (b" 12 ", 12.0),
        (b"1000000000", RETRY_AFTER_CAP),
        (b"9" * 400, RETRY_AFTER_CAP),
        (b"Thu, 01 Jan 1970 00:16:40 GMT", 900.0),
        (b"Thu, 01 Jan 1970 00:00:10 GMT", 0.0),
        (b"Thu, 01 Jan 1970 00:16:40 -0000", 900.0),
        (b"Fri, 31 Dec 9999 23:59:59 GMT", RETRY_AFTER_CAP),
        (b"-5", None),
        (b"1.5", None),
        (b"soon", None),
        (b"", None),
        (b"\xb2", None),
    ],
)
def test_retry_after_is_read_in_both_forms_and_capped_and_junk_is_ignored(
    text: bytes | None, seconds: float | None
) -> None:
    assert retry_after(text, 100.0) == seconds


@given(st.binary(max_size=200))
def test_no_header_and_no_body_breaks_the_translation(data: bytes) -> None:
    error = error_for(503, {b"retry-after": data, b"x-amz-request-id": data}, data)
    assert error.retryable
    wait = retry_after(data, 0.0)
    assert wait is None or 0 <= wait <= RETRY_AFTER_CAP


def test_a_code_is_found_without_expanding_anything() -> None:
    assert error_code(document("NoSuchKey")) == "NoSuchKey"
    assert error_code(b'<!DOCTYPE x [<!ENTITY e "y">]><Error><Code>&e;</Code></Error>') is None
    assert error_code(b"<html>") is None


def test_a_response_to_a_condition_that_was_not_sent_is_named_and_is_no_redirect() -> None:
    assert "'not modified' to a request without a condition" in error_for(304, {}, b"").message
    assert "elsewhere" in error_for(301, {}, b"").message
