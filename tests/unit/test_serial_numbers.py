from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from aiozarr.serial_numbers import SerialNumbers


def test_threads_get_each_number_once() -> None:
    numbers = SerialNumbers()
    with ThreadPoolExecutor(4) as pool:
        found = [each for part in pool.map(lambda _: [numbers.next() for _ in range(500)], range(4)) for each in part]
    assert sorted(found) == list(range(1, 2001))
