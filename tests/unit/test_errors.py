"""Errors: declared fields, text, pickling, and location."""

from __future__ import annotations

import gc
import pickle
import weakref
from typing import Any

import pytest

from aiozarr import errors
from aiozarr.errors import (
    AiozarrError,
    ChangedError,
    CodecError,
    InvalidMetadataError,
    LimitError,
    NodeNotFoundError,
    SelectionError,
    StoreError,
    StoreTimeoutError,
    ThrottledError,
    UnsupportedMetadataError,
    fill_location,
    located,
)
from aiozarr.model import Range

CLASSES = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, AiozarrError)]
# Any value does: pickling and constructors do not look at it.
VALUES: dict[str, Any] = {"failures": {"a": StoreError("no")}, "failed": (("a", StoreError("no")),)}


def fields_of(kind: type[AiozarrError]) -> list[str]:
    return sorted(kind._fields - {"message"})


def shown(error: AiozarrError) -> dict[str, str]:
    return {name: str(getattr(error, name)) for name in ("message", *fields_of(type(error)))}


@pytest.mark.parametrize("kind", CLASSES)
def test_every_declared_field_can_be_given_and_is_kept_by_pickling(kind: type[AiozarrError]) -> None:
    values: dict[str, Any] = {name: VALUES.get(name, f"some {name}") for name in fields_of(kind)}
    if "elapsed" in values:
        values |= {"elapsed": 1.5, "attempts": 2}
    error = kind("the message", **values)
    assert {name: getattr(error, name) for name in values} == values
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == str(error)
    assert shown(again) == shown(error)


@pytest.mark.parametrize("kind", CLASSES)
def test_fields_that_a_class_does_not_declare_are_type_errors(kind: type[AiozarrError]) -> None:
    with pytest.raises(TypeError, match="stroe"):
        kind("the message", stroe="memory://")  # type: ignore[call-arg]


def test_an_error_without_fields_shows_its_message_alone() -> None:
    assert [str(kind("no")) for kind in CLASSES] == ["no"] * len(CLASSES)


def test_an_error_has_a_text_of_bounded_length_and_whole_fields() -> None:
    url = "s3://" + "b" * 100_000
    error = StoreError(f"there is nothing at {url}", store=url)
    assert len(str(error)) < 11_000
    assert str(error).startswith("there is nothing at s3://bbb")
    assert error.store == url


def test_an_error_shows_its_fields_after_the_message() -> None:
    error = StoreError("no", store="s3://b", key="k", range=Range(1, 2), attempts=3, elapsed=0.25, status=503)
    assert str(error) == "no (store s3://b, key 'k', bytes 1+2, status 503, 3 attempts, 0.2 s)"
    assert str(InvalidMetadataError("no", node="n", key="zarr.json", member="shape")) == (
        "no (node n, key 'zarr.json', member 'shape')"
    )
    assert str(CodecError("no", codec="zstd", key="c/0")) == "no (codec 'zstd', key 'c/0')"
    assert str(NodeNotFoundError("no", url="s3://b")) == "no"


def test_some_kinds_of_errors_are_retryable_unless_the_store_knows_better() -> None:
    assert [ThrottledError("no").retryable, StoreTimeoutError("no").retryable] == [True, True]
    assert [StoreError("no").retryable, ChangedError("no").retryable] == [False, False]
    assert not ThrottledError("no", retryable=False).retryable
    assert StoreError("no", retryable=True).retryable


def test_an_error_of_the_block_is_told_where_it_happened_and_stays_the_same_object() -> None:
    inner = CodecError("no", codec="zstd")
    with pytest.raises(CodecError) as caught, located(store="s3://b", key="c/0", range=Range(4, 8)):
        raise inner
    assert caught.value is inner
    assert (inner.codec, inner.store, inner.key, inner.range) == ("zstd", "s3://b", "c/0", Range(4, 8))


def test_fields_that_are_set_stay_as_they_are() -> None:
    error = CodecError("no", store="s3://inner", key="c/0")
    fill_location(error, store="s3://outer", key="c/1", range=Range(0, 1))
    # The range is one of the other key.
    assert (error.store, error.key, error.range) == ("s3://inner", "c/0", None)
    fill_location(error, key="c/0", range=Range(0, 1))
    assert error.range == Range(0, 1)
    fill_location(error, range=Range(5, 6))
    assert error.range == Range(0, 1)


def test_only_fields_that_the_class_declares_are_filled() -> None:
    selection, limit = SelectionError("no"), LimitError("no", limit="max_chunks")
    metadata = UnsupportedMetadataError("no", member="codecs")
    for error in (selection, limit, metadata):
        fill_location(error, store="s3://b", key="zarr.json", range=Range(0, 1), node="n")
    assert not {"store", "key", "range", "node"} & vars(selection).keys()
    assert str(limit) == f"no (store s3://b, key 'zarr.json', {Range(0, 1)})"
    assert not hasattr(limit, "node")
    assert str(metadata) == "no (node n, key 'zarr.json', member 'codecs')"
    assert not hasattr(metadata, "range")


def test_other_exceptions_pass_through_unchanged() -> None:
    error = ValueError("no")
    with pytest.raises(ValueError, match="no") as caught, located(store="s3://b"):
        raise error
    assert caught.value is error
    assert not vars(error)


def test_a_located_error_is_freed_without_the_garbage_collector() -> None:
    class Held(CodecError):
        pass

    def fail() -> weakref.ref[Held]:
        try:
            with located(store="s3://b", key="c/0"):
                raise Held("no")
        except Held as error:
            return weakref.ref(error)

    gc.disable()
    try:
        assert fail()() is None
    finally:
        gc.enable()
