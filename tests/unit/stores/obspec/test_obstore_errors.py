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
from aiozarr.stores.obspec_errors import translate_obstore


def told(status: int, code: str) -> str:
    """Return a message as the library words it."""
    return (
        f"Generic S3 error: Error performing PUT https://h/b/k?X-Amz-Signature=hidden in 1ms - Server returned non-2xx "
        f"status code: {status} Words: <Error><Code>{code}</Code><RequestId>ID7</RequestId></Error>"
    )


@pytest.mark.parametrize(
    ("error", "kind", "status", "retryable"),
    [
        (exceptions.AlreadyExistsError(told(412, "PreconditionFailed")), PreconditionFailedError, 412, False),
        (exceptions.PreconditionError(told(404, "NoSuchKey")), PreconditionFailedError, 404, False),
        (exceptions.PreconditionError(told(404, "NoSuchBucket")), StoreError, 404, False),
        (exceptions.AlreadyExistsError(told(409, "ConditionalRequestConflict")), StoreError, 409, True),
        (FileNotFoundError(told(404, "NoSuchBucket")), StoreError, 404, False),
        (exceptions.PermissionDeniedError(told(403, "AccessDenied")), PermissionDeniedError, 403, False),
        (exceptions.GenericError(told(503, "SlowDown")), ThrottledError, 503, True),
        (exceptions.GenericError(told(500, "InternalError")), StoreError, 500, True),
        (exceptions.GenericError(told(403, "ExpiredToken")), UnauthenticatedError, 403, False),
        (exceptions.UnauthenticatedError("no"), UnauthenticatedError, None, False),
        (exceptions.GenericError("<Error><Code>InternalError</Code></Error>"), StoreError, 200, True),
        (
            exceptions.GenericError("Error performing PUT http://169.254.169.254/latest"),
            UnauthenticatedError,
            None,
            False,
        ),
        (exceptions.GenericError("HTTP error: error sending request"), StoreError, None, True),
        (exceptions.GenericError("invalid peer certificate: Expired"), StoreError, None, False),
        (exceptions.GenericError("HTTP error: dns error: no such name"), StoreError, None, False),
        (ValueError("Could not parse path"), InvalidKeyError, None, False),
    ],
)
def test_the_text_of_an_error_decides_its_type(
    error: Exception, kind: type, status: int | None, retryable: bool
) -> None:
    found = translate_obstore(error)
    assert type(found) is kind
    assert (found.status, found.retryable) == (status, retryable)
    assert "hidden" not in str(found)
    if "ID7" in str(error):
        assert found.request_id == "ID7"


class RustPanic(Exception):
    """As the bridge between the library and Python names it."""


class PanicException(BaseException):
    """As the bridge names the panics of calls that are not awaited."""


@pytest.mark.parametrize("panic", [RustPanic("rust future panicked"), PanicException("unwrap")])
def test_a_panic_of_the_library_is_an_error_of_the_store(panic: BaseException) -> None:
    found = translate_obstore(panic)
    assert "failed within itself" in str(found)
    assert not found.retryable


@pytest.mark.parametrize(
    ("told", "words"),
    [("Azure Cli not installed", "'az', was not found"), ("ERROR: Please run az login to setup account.", "az login")],
)
def test_a_missing_azure_cli_is_named(told: str, words: str) -> None:
    text = f"Generic MicrosoftAzure error: 'az account get-access-token' command failed: {told}\n\nDebug source"
    found = translate_obstore(exceptions.GenericError(text))
    assert type(found) is UnauthenticatedError
    assert words in str(found)
