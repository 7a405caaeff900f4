"""What the memory store promises beyond the contract: names, prefixes, copies, pickles and forks."""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
import uuid

import pytest

from aiozarr.errors import InvalidKeyError
from aiozarr.stores import MemoryStore, from_url


@pytest.fixture
def name() -> str:
    return f"test {uuid.uuid4().hex}"


def test_one_name_is_one_set_of_values(name: str) -> None:
    MemoryStore.named(name).set_now("a", b"1")
    gc.collect()
    value = MemoryStore.named(name).fetch_now("a")
    assert value is not None
    assert value.data == b"1"
    assert MemoryStore.named(name) == MemoryStore.named(name)


def test_stores_without_a_name_share_nothing() -> None:
    first, second = MemoryStore(), MemoryStore()
    first.set_now("a", b"1")
    assert second.fetch_now("a") is None
    assert first != second


def test_the_url_of_any_memory_store_opens_the_same_values(name: str) -> None:
    for store in (MemoryStore(), MemoryStore.named(name), MemoryStore.named(name, "a/ü b/")):
        store.set_now("key", b"1")
        again = from_url(store.url)
        assert again == store
        assert isinstance(again, MemoryStore)
        assert again.fetch_now("key") is not None


async def test_a_prefix_is_a_root_of_its_own(name: str) -> None:
    whole, part = MemoryStore.named(name), MemoryStore.named(name, "a/b/")
    await part.set("c/0", b"1")
    await whole.set("a/bc", b"2")
    assert await whole.get("a/b/c/0") == b"1"
    assert await part.list() == ["c/0"]
    assert await part.list_dir("") == ([], ["c/"])
    await part.erase_prefix("")
    assert await whole.list() == ["a/bc"]
    assert part != whole


def test_a_name_is_not_empty_and_a_prefix_valid() -> None:
    with pytest.raises(ValueError, match="the name of a memory store must not be empty"):
        MemoryStore.named("")
    with pytest.raises(InvalidKeyError):
        MemoryStore.named("x", "a/../")


def test_fetch_gives_a_read_only_view_without_a_copy() -> None:
    store = MemoryStore()
    store.set_now("a", b"0123456789")
    first, second = store.fetch_now("a"), store.fetch_now("a")
    assert first is not None
    assert second is not None
    assert isinstance(first.data, memoryview)
    assert isinstance(second.data, memoryview)
    assert first.data.readonly
    assert first.data.obj is second.data.obj


def test_a_pickle_is_the_same_store_in_its_process_and_a_copy_in_another() -> None:
    store = MemoryStore()
    store.set_now("a", b"from the parent")
    dumped = pickle.dumps(store)
    assert pickle.loads(dumped) == store
    program = "import pickle, sys; print(pickle.load(sys.stdin.buffer).fetch_now('a').data.tobytes().decode())"
    done = subprocess.run([sys.executable, "-c", program], input=dumped, capture_output=True, check=True)
    assert done.stdout.decode().strip() == "from the parent"


def test_values_of_a_store_without_a_name_are_freed_with_it() -> None:
    store = MemoryStore()
    url = store.url
    store.set_now("a", b"1")
    del store
    gc.collect()
    again = from_url(url)
    assert isinstance(again, MemoryStore)
    assert again.fetch_now("a") is None


FORK = """
import os
from aiozarr.stores import MemoryStore
store = MemoryStore()
with store._space.lock:
    child = os.fork()
    if child == 0:
        store.set_now("b", b"2")
        os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork")
def test_a_child_of_a_fork_can_write_even_if_the_parent_held_the_lock() -> None:
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "7"
