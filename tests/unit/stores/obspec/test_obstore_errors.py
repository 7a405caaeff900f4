"""Errors of the client library, as it words them, become errors of the contract."""

import pytest
from obstore import exceptions

from aiozarr.errors import (
    InvalidKeyError,
    PermissionDeniedError,
    PreconditionFailedError,
    StoreError,
    ThrottledError,
    UnauthenticatedError,
)
from aiozarr.stores.obspec_errors import translate


def told(status: int, code: str) -> str:
    """Return a message as the library words it."""
    return (
        f"Generic S3 error: Error performing PUT https://h/b/k?X-Amz-Signature=hidden in 1ms - Server returned non-2xx "
        f"status code: {status} Words: <Error><Code>{code}</Code><RequestId>ID7</RequestId></Error>"
    )


@pytest.mark.parametrize(
    ("error", "kind", "status", "retryable"),
    [
        (exceptions.AlreadyExistsError(told(412, "PreconditionFailed")), PreconditionFailedError, None, False),
        (exceptions.PreconditionError(told(404, "NoSuchKey")), PreconditionFailedError, None, False),
        (FileNotFoundError(told(404, "NoSuchBucket")), StoreError, 404, False),
        (exceptions.PermissionDeniedError(told(403, "AccessDenied")), PermissionDeniedError, None, False),
        (exceptions.GenericError(told(503, "SlowDown")), ThrottledError, 503, True),
        (exceptions.GenericError(told(500, "InternalError")), StoreError, 500, True),
        (exceptions.GenericError(told(403, "ExpiredToken")), UnauthenticatedError, 403, False),
        (exceptions.UnauthenticatedError("no"), UnauthenticatedError, None, False),
        (exceptions.GenericError("<Error><Code>InternalError</Code></Error>"), StoreError, 200, True),
        (
            exceptions.GenericError("Error performing PUT http://169.254.169.254/latest"),
            StoreError,
            None,
            False,
        ),
        (exceptions.GenericError("HTTP error: error sending request"), StoreError, None, True),
        (exceptions.GenericError("invalid peer certificate: Expired"), StoreError, None, False),
        (exceptions.GenericError("HTTP error: dns error: no such name"), StoreError, None, False),
        (ValueError("Could not parse path"), InvalidKeyError, None, False),
    ],
)
def test_the_class_or_the_status_of_an_error_decides_its_type(
    error: Exception, kind: type, status: int | None, retryable: bool
) -> None:
    found = translate(error)
    assert type(found) is kind
    assert (found.status, found.retryable) == (status, retryable)
    assert "hidden" not in str(found)
    if "ID7" in str(error) and status is not None:
        assert found.request_id == "ID7"


def test_a_text_without_a_response_is_shown_without_queries_and_passwords() -> None:
    text = "Generic S3 error: Error performing GET https://me:hidden@h/b/k?sig=hidden in 1ms - dns error\n\nDebug: x"
    shown = str(translate(exceptions.GenericError(text)))
    assert "Error performing GET https://h/b/k in 1ms - dns error" in shown
    assert "hidden" not in shown
    assert "Debug" not in shown
    assert "\x1b" not in str(translate(exceptions.GenericError("Generic S3 error: \x1b[2J")))
