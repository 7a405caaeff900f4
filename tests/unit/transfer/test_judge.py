"""What was fetched against what was listed."""

from __future__ import annotations

import pytest

from aiozarr.model import Entry, Version
from aiozarr.transfer.judge import Taken, Verdict, judge, same_version

OLD, NEW = Version('"1"'), Version('"2"')


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (OLD, OLD, True),
        (OLD, NEW, False),
        (OLD, Version('W/"1"'), True),
        (OLD, None, None),
        (None, None, None),
        (Version('"1"', "7"), Version('"1"', "8"), False),
        (Version('"1"', "7"), OLD, True),
        (Version(generation="7"), OLD, None),
    ],
)
def test_versions_are_compared_by_what_both_of_them_tell(
    one: Version | None, other: Version | None, same: bool | None
) -> None:
    assert same_version(one, other) is same
    assert same_version(other, one) is same


@pytest.mark.parametrize(
    ("listed", "taken", "seen", "verdict"),
    [
        (Entry("k", 3, OLD), Taken(b"abc", 3, OLD), None, Verdict.AS_LISTED),
        (Entry("k", 3), Taken(b"abc", 3, None), None, Verdict.AS_LISTED),
        (Entry("k", None), Taken(b"abc", 3, NEW), None, Verdict.AS_LISTED),
        (Entry("k", 3, OLD), Taken(b"xyz", 3, NEW), None, Verdict.REPLACED),
        (Entry("k", 3, OLD), Taken(b"abcd", 4, NEW), None, Verdict.REPLACED),
        # Cut short: the answer says so itself.
        (Entry("k", 3, OLD), Taken(b"ab", 3, OLD), None, Verdict.AGAIN),
        (Entry("k", 3, OLD), Taken(b"ab", 3, NEW), 3, Verdict.AGAIN),
        # One version cannot have two sizes, however often it is asked.
        (Entry("k", 3, OLD), Taken(b"ab", 2, OLD), None, Verdict.AGAIN),
        (Entry("k", 3, OLD), Taken(b"ab", 2, OLD), 2, Verdict.AGAIN),
        # Without versions, a size counts once it was seen twice.
        (Entry("k", 3), Taken(b"ab", 2, None), None, Verdict.AGAIN),
        (Entry("k", 3), Taken(b"ab", 2, None), 1, Verdict.AGAIN),
        (Entry("k", 3), Taken(b"ab", 2, None), 2, Verdict.REPLACED),
    ],
)
def test_the_verdict_over_an_object(listed: Entry, taken: Taken, seen: int | None, verdict: Verdict) -> None:
    assert judge(listed, taken, seen=seen, strict=True) is verdict


def test_without_verification_a_size_is_believed_but_a_cut_answer_never() -> None:
    assert judge(Entry("k", 3), Taken(b"ab", 2, None), seen=None, strict=False) is Verdict.REPLACED
    assert judge(Entry("k", 3), Taken(b"ab", 3, None), seen=None, strict=False) is Verdict.AGAIN
