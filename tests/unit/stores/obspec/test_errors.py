"""Errors of obspec's objects are recognised by the names of their classes."""

from __future__ import annotations

import pytest

import aiozarr
from aiozarr.stores.obspec.errors import is_missing, translate


def named(name: str, *bases: type) -> Exception:
    error: Exception = type(name, bases or (Exception,), {})("https://host/key?sig=secret")
    return error


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("AlreadyExistsError", aiozarr.PreconditionFailedError),
        ("PreconditionError", aiozarr.PreconditionFailedError),
        ("PermissionDeniedError", aiozarr.PermissionDeniedError),
        ("UnauthenticatedError", aiozarr.UnauthenticatedError),
        ("InvalidPathError", aiozarr.InvalidKeyError),
        ("NotSupportedError", aiozarr.UnsupportedOperationError),
        ("SomethingElse", aiozarr.StoreError),
    ],
)
def test_the_name_of_the_class_says_the_error_and_its_text_is_not_repeated(name: str, kind: type) -> None:
    found = translate(named(name))
    assert type(found) is kind
    assert "secret" not in str(found)


def test_a_missing_object_is_told_from_others() -> None:
    assert is_missing(named("NotFoundError"))
    assert is_missing(named("Own", FileNotFoundError))
    assert not is_missing(named("PermissionDeniedError"))


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [(403, aiozarr.PermissionDeniedError, False), (400, aiozarr.StoreError, False), (503, aiozarr.StoreError, True)],
)
def test_responses_that_aiohttp_raised_are_those_of_the_status(status: int, kind: type, retryable: bool) -> None:
    error = named("ClientResponseError")
    error.status = status  # type: ignore[attr-defined]
    assert not is_missing(error)
    found = translate(error)
    assert isinstance(found, kind)
    assert found.retryable is retryable
    error.status = 404  # type: ignore[attr-defined]
    assert is_missing(error)


def test_a_broken_connection_may_be_retried() -> None:
    assert translate(ConnectionResetError()).retryable
    assert not translate(named("SomethingElse")).retryable
