"""What a copy does with the objects of source and destination, as its caller has said."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from aiozarr.engine.copy import Verify
from aiozarr.model import Entry
from aiozarr.transfer.key_filter import KeyFilter

OnError: TypeAlias = Literal["raise", "continue"]


@dataclass(frozen=True)
class CopyRules:
    """What a copy does with the objects of source and destination; each as of `aiozarr.copy`.

    Attributes:
        keys: the keys that are copied.
        overwrite: replace objects of the destination.
        resume: continue an interrupted copy.
        verify: how each object is checked.
        delete: remove objects that the source does not have.
        skip_equal: skip objects that the destination has already; `delete` does, too.
        dry_run: count, and write nothing.
        on_error: stop at the first error, or continue.
        part: names the part of the source that is copied, for the journal.
        is_journaled: whether the copy can be resumed.
    """

    keys: KeyFilter = field(default_factory=KeyFilter)
    overwrite: bool = False
    resume: bool = False
    verify: Verify = "size"
    delete: bool = False
    skip_equal: bool = False
    dry_run: bool = False
    on_error: OnError = "raise"
    part: str = ""
    is_journaled: bool = True

    @property
    def may_replace(self) -> bool:
        """True if objects of the destination may be replaced."""
        return self.overwrite or self.delete

    @property
    def compares(self) -> bool:
        """True if objects of the destination are compared with those of the source."""
        return self.delete or self.skip_equal


class ObjectSource(Protocol):
    """The objects that a source may have, by the metadata of its arrays. Chunks among them may be missing."""

    rewritten: int
    """Number of objects that were encoded again."""

    def entries(self) -> AsyncGenerator[Entry, None]:
        """Iterate over the objects."""
        ...
