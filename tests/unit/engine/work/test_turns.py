"""Lines that take turns before the workers."""

from __future__ import annotations

import gc
import threading
import weakref

from aiozarr.engine.work.turns import Turns


def taken(turns: Turns[str], count: int) -> str:
    return "".join([turns.get() or "" for _ in range(count)])


def test_within_a_line_it_is_first_in_first_out() -> None:
    turns: Turns[str] = Turns()
    for item in "abc":
        turns.put(item)
    assert taken(turns, 3) == "abc"


def test_lines_take_turns_so_that_a_long_one_holds_up_nobody() -> None:
    turns: Turns[str] = Turns()
    for item in "AAAAAA":
        turns.put(item, "long")
    for item in "bc":
        turns.put(item)
    turns.put("D", "third")
    assert taken(turns, 9) == "AbDAcAAAA"


def test_a_line_that_was_empty_for_a_while_stands_at_the_end() -> None:
    turns: Turns[str] = Turns()
    turns.put("a", 1)
    assert taken(turns, 1) == "a"
    turns.put("b", 2)
    turns.put("c", 1)
    assert taken(turns, 2) == "bc"


def test_who_is_to_stop_does_so_when_all_is_taken() -> None:
    turns: Turns[str] = Turns()
    turns.put("a")
    turns.stop_one()
    assert turns.get() == "a"
    assert turns.get() is None


def test_an_empty_line_does_not_keep_its_name_alive() -> None:
    class Name:
        pass

    turns: Turns[str] = Turns()
    name = Name()
    dead = weakref.ref(name)
    turns.put("a", name)
    del name
    assert turns.get() == "a"
    gc.collect()
    assert dead() is None


def test_threads_get_each_item_once() -> None:
    turns: Turns[int] = Turns()
    got: list[list[int]] = [[] for _ in range(4)]

    def take(mine: list[int]) -> None:
        while (item := turns.get()) is not None:
            mine.append(item)

    threads = [threading.Thread(target=take, args=(mine,)) for mine in got]
    for thread in threads:
        thread.start()
    for number in range(1000):
        turns.put(number, number % 7)
    for _ in threads:
        turns.stop_one()
    for thread in threads:
        thread.join()
    assert sorted(item for mine in got for item in mine) == list(range(1000))
