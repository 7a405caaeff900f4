"""The exit status of errors."""

from __future__ import annotations

import pytest

from aiozarr.cli.exit_codes import exit_code_of
from aiozarr.errors import (
    CopyError,
    EraseError,
    InvalidMetadataError,
    NodeNotFoundError,
    PermissionDeniedError,
    StoreError,
    ThrottledError,
    UnauthenticatedError,
    UnknownSchemeError,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidMetadataError("x"), 1),
        (OSError(28, "No space left on device"), 1),
        (TypeError("x"), 2),
        (UnknownSchemeError("x"), 2),
        (NodeNotFoundError("x"), 3),
        (FileNotFoundError("x"), 4),
        (ThrottledError("x"), 5),
        (PermissionDeniedError("x"), 7),
        (UnauthenticatedError("x"), 7),
        (PermissionError("x"), 7),
        (CopyError("x"), 1),
        (CopyError("x", failed=(("a", ThrottledError("x")),)), 5),
        (CopyError("x", failed=(("a", PermissionDeniedError("x")),)), 7),
        (EraseError("x", failures={"a": PermissionDeniedError("x")}), 7),
        (StoreError("x"), 1),
        (StoreError("the bucket does not exist", status=404), 3),
    ],
)
def test_the_number_of_an_error(error: Exception, code: int) -> None:
    assert exit_code_of(error) == code
