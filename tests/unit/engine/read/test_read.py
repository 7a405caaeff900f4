"""The token of a read: readers of one array share chunks by it, whatever they select."""

from __future__ import annotations

from aiozarr.testing.fakes import FakeStore
from tests.support.engine_samples import Sample, layout_of


def test_reads_of_one_array_have_one_id_and_those_of_another_store_or_layout_their_own() -> None:
    store = FakeStore()
    array = Sample(layout_of((4, 4), (2, 2)), store)
    array_id = array.read(0).array_id
    assert array.read(...).array_id is array_id
    assert Sample(layout_of((4, 4), (2, 2)), store).read(1).array_id is array_id
    assert Sample(layout_of((4, 4), (2, 2)), FakeStore()).read(1).array_id is not array_id
    assert Sample(layout_of((4, 4), (2, 2), dtype="int16"), store).read(1).array_id is not array_id


def test_the_touched_objects_are_computed_once_and_can_be_walked_again() -> None:
    read = Sample(layout_of((4, 4), (2, 2)), FakeStore()).read(slice(0, 2))
    parts = read.parts
    assert read.parts is parts
    assert [part.coords for part in parts] == [part.coords for part in parts] == [(0, 0), (0, 1)]
