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


def test_a_broken_connection_may_be_retried() -> None:
    assert translate(ConnectionResetError()).retryable
    assert not translate(named("SomethingElse")).retryable
