"""Whether what was fetched is what was listed: pure decisions over versions and sizes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from typing_extensions import Buffer

from aiozarr.model import Entry, Version


@dataclass(frozen=True, slots=True)
class Taken:
    """An object that was fetched whole.

    Attributes:
        data: its bytes.
        size: how many the store says it has.
        version: which state of it that is, where the store tells.
    """

    data: Buffer
    size: int
    version: Version | None


class Verdict(Enum):
    """What is to be made of an object that was fetched."""

    AS_LISTED = "it is the object of the listing"
    REPLACED = "it is a later one, and whole"
    AGAIN = "it may be cut short; only another fetch can tell"


def same_version(one: Version | None, other: Version | None) -> bool | None:
    """Return whether two versions are equal; None where they cannot be compared.

    A listing may tell less than an answer does, such as the ETag without the generation: what both tell decides.
    """
    if one is None or other is None:
        return None
    if one.generation is not None and other.generation is not None:
        return one.generation == other.generation
    if one.etag is not None and other.etag is not None:
        return one.etag.removeprefix("W/") == other.etag.removeprefix("W/")
    return None


def judge(listed: Entry, taken: Taken, *, seen: int | None, strict: bool) -> Verdict:
    """Decide whether `taken` may be stored.

    Args:
        listed: what the listing said.
        taken: what was fetched.
        seen: the size that the fetch before this one found, if there was one.
        strict: doubt sizes that differ from the listing's.
    """
    same = same_version(listed.version, taken.version)
    fits = listed.size is None or listed.size == taken.size
    if memoryview(taken.data).nbytes != taken.size:
        return Verdict.AGAIN
    if same is False:
        return Verdict.REPLACED
    if fits:
        return Verdict.AS_LISTED
    # One state of an object has one size; and where no version tells states apart, a size must be seen twice.
    if strict and (same or seen != taken.size):
        return Verdict.AGAIN
    return Verdict.REPLACED
