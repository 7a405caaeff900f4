"""What a thread reuses from chunk to chunk."""

from __future__ import annotations

import threading

from aiozarr.memory import SPARE_BYTES, ThreadMemory


def test_the_latest_value_of_a_kind_is_reused_until_its_key_changes() -> None:
    memory = ThreadMemory()
    first = memory.latest("kind", 1, lambda key: [key])
    assert memory.latest("kind", 1, lambda key: [key]) is first
    assert memory.latest("other", 2, lambda key: [key]) == [2]
    assert memory.latest("kind", 1, lambda key: [key]) is first
    assert memory.latest("kind", 2, lambda key: [key]) == [2]
    assert memory.latest("kind", 1, lambda key: [key]) is not first


def test_threads_share_nothing() -> None:
    memory = ThreadMemory()
    mine, block = memory.latest("kind", 1, lambda key: [key]), memory.scratch(10)
    found: list[object] = []
    thread = threading.Thread(
        target=lambda: found.extend([memory.latest("kind", 1, lambda key: [key]), memory.scratch(10)])
    )
    thread.start()
    thread.join()
    assert found[0] is not mine
    assert found[1] is not block


def test_scratch_is_replaced_when_it_is_too_small_or_much_too_large() -> None:
    memory = ThreadMemory()
    small = memory.scratch(100)
    assert memory.scratch(50) is small
    value = memory.latest("kind", 1, lambda key: [key])
    large = memory.scratch(8 * SPARE_BYTES)
    assert large.nbytes == 8 * SPARE_BYTES
    # A value may refer to the block that was replaced.
    assert memory.latest("kind", 1, lambda key: [key]) is not value
    assert memory.scratch(2 * SPARE_BYTES) is large
    assert memory.scratch(SPARE_BYTES).nbytes == SPARE_BYTES
    assert memory.scratch(0).nbytes == SPARE_BYTES
