"""The comparison of a mirror: objects of equal content, and keys that the source lacks."""

from __future__ import annotations

from aiozarr.model import Entry, Version
from aiozarr.transfer.journal import Mirror


def test_objects_of_equal_content_tags_are_not_copied_again() -> None:
    md5 = Version('"900150983cd24fb0d6963f7d28e17f72"')
    mirror = Mirror()
    mirror.add_stored(Entry("a", 3, md5))
    mirror.add_stored(Entry("multipart", 3, Version('"900150983cd24fb0d6963f7d28e17f72-2"')))
    mirror.add_stored(Entry("local", 3, Version("17a-3-9")))
    assert mirror.is_stored(Entry("a", 3, md5))
    assert not mirror.is_stored(Entry("a", 4, md5))
    assert not mirror.is_stored(Entry("a", 3, Version('"900150983cd24fb0d6963f7d28e17f73"')))
    assert not mirror.is_stored(Entry("a", 3))
    assert not mirror.is_stored(Entry("multipart", 3, Version('"900150983cd24fb0d6963f7d28e17f72-2"')))
    assert not mirror.is_stored(Entry("local", 3, Version("17a-3-9")))


def test_keys_of_the_source_are_known_until_they_are_discarded() -> None:
    mirror = Mirror()
    mirror.add_key("a")
    mirror.add_key("b")
    mirror.discard_key("b")
    assert "a" in mirror
    assert "b" not in mirror


def test_an_object_may_be_there_if_key_and_size_are_equal() -> None:
    mirror = Mirror()
    mirror.add_stored(Entry("a", 3))
    assert mirror.may_have(Entry("a", 3))
    assert not mirror.may_have(Entry("a", 4))
    assert not mirror.may_have(Entry("b", 3))
