"""The store over obspec's methods: which are asked, and what it supports without them."""

from __future__ import annotations

from typing import Any

import pytest
from obstore.store import MemoryStore

import aiozarr
from aiozarr.model import Range, Suffix
from aiozarr.stores.obspec_errors import is_missing, translate
from aiozarr.stores.obspec_store import ObspecStore


class Reader:
    """An object that can only be read, answers whole objects whatever range is asked for, and tells no versions."""

    def __init__(self, values: dict[str, bytes]) -> None:
        self.values = values
        self.asked: list[tuple[str, Any]] = []

    async def get_async(self, path: str, *, options: Any = None) -> Any:
        self.asked.append((path, options))
        if path not in self.values:
            raise FileNotFoundError(path)
        return Result(path, self.values[path])


class Result:
    def __init__(self, path: str, data: bytes) -> None:
        self.data = data
        self.meta = {"path": path, "size": len(data), "e_tag": None, "version": None, "last_modified": None}
        self.range = (0, len(data))

    async def __aiter__(self) -> Any:
        yield self.data[:2]
        yield self.data[2:]


async def test_an_object_with_one_method_can_be_read() -> None:
    reader = Reader({"a": b"hello"})
    store = ObspecStore(reader)
    supports = store.supports
    assert (supports.writable, supports.listable, supports.conditional_writes) == (False, False, False)
    for wanted, expected in [(None, b"hello"), (Range(1, 3), b"ell"), (Range(3), b"lo"), (Suffix(2), b"lo")]:
        value = await store.fetch("a", wanted)
        assert value is not None
        assert (bytes(value.data), value.size, value.version) == (expected, 5, None)
    assert reader.asked[1:] == [
        ("a", {"range": (1, 4)}),
        ("a", {"range": {"offset": 3}}),
        ("a", {"range": {"suffix": 2}}),
    ]
    assert await store.fetch("b") is None
    assert await store.stat("a") == aiozarr.stores.Entry("a", 5, None)
    with pytest.raises(aiozarr.UnsupportedOperationError):
        await store.set("a", b"")
    with pytest.raises(aiozarr.LimitError):
        await store.fetch("a", max_bytes=4)


class MisnamedRange(Reader):
    """Names the requested range, whatever it answers."""

    def __init__(self, answers: bytes, size: int, named: tuple[int, int]) -> None:
        super().__init__({"a": answers})
        self.size = size
        self.named = named

    async def get_async(self, path: str, *, options: Any = None) -> Any:
        result = await super().get_async(path, options=options)
        result.meta["size"], result.range = self.size, self.named
        return result


@pytest.mark.parametrize(
    ("answers", "named", "wanted", "expected"),
    [
        (b"0123456789", (4, 6), Range(4, 2), b"45"),
        (b"89", (0, 2), Suffix(2), b"89"),
        (b"89", (8, 20), Range(8, 12), b"89"),
        (b"3456", (3, 7), Range(4, 2), b"45"),
    ],
)
async def test_the_lengths_say_which_bytes_were_answered(
    answers: bytes, named: tuple[int, int], wanted: Any, expected: bytes
) -> None:
    value = await ObspecStore(MisnamedRange(answers, 10, named)).fetch("a", wanted)
    assert value is not None
    assert bytes(value.data) == expected


async def test_bytes_of_another_range_are_an_error() -> None:
    for answers, named in ((b"4", (4, 6)), (b"678", (6, 9))):
        with pytest.raises(aiozarr.StoreError, match="not those of the range"):
            await ObspecStore(MisnamedRange(answers, 10, named)).fetch("a", Range(4, 2))


async def test_values_of_stores_in_memory_are_copied() -> None:
    store = ObspecStore(MemoryStore())
    data = bytearray(b"123")
    await store.set("a", data)
    data[:] = b"456"
    assert bytes(await store.get("a") or b"") == b"123"


def test_stores_of_one_object_are_equal_and_of_others_not() -> None:
    one, two = Reader({}), Reader({})
    assert ObspecStore(one, url="x://a") == ObspecStore(one, url="x://a")
    assert ObspecStore(one, url="x://a") != ObspecStore(two, url="x://a")
    assert ObspecStore(one).url.startswith("obspec://Reader-")
    assert ObspecStore(one) == ObspecStore(one) != ObspecStore(two)


async def test_handles_of_one_object_know_of_each_others_resizes() -> None:
    held = MemoryStore()
    array = await aiozarr.create_array(held, shape=(12,), dtype="i4", chunks=(4,))
    await array[0].write(1)
    await (await aiozarr.open_array(held, mode="r+")).resize((4,))
    with pytest.raises(aiozarr.ChangedError, match="has the shape"):
        await array[...].write(5)


async def test_arrays_are_opened_created_and_copied_where_an_object_is_the_target() -> None:
    held = MemoryStore()
    array = await aiozarr.create_array(held, "a", data=[1, 2, 3])
    assert (await array[...]).tolist() == [1, 2, 3]
    async with aiozarr.open_array(held, "a", mode="r+") as again:
        await again[1].write(7)
    assert aiozarr.sync.open_array(held, "a")[...].tolist() == [1, 7, 3]
    other = MemoryStore()
    await aiozarr.copy(held, other)
    assert aiozarr.sync.open_array(other, "a")[...].tolist() == [1, 7, 3]
    with pytest.raises(TypeError, match="storage_options need a URL; a store of another library already has"):
        await aiozarr.open(held, storage_options={"anon": True})
    with pytest.raises(TypeError, match=r"an object with obspec's methods, not int"):
        await aiozarr.open(3)  # type: ignore[call-overload]


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
