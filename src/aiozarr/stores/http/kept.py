"""Whole objects that came in place of ranges, kept for the ranges of the same version that are asked for next."""

from __future__ import annotations

from aiozarr.model import resolve_range
from aiozarr.stores.lane.connection import Answer
from aiozarr.stores.lane.judge import SLICE_BYTES, Accept, Want, etag_of

MOST = 64
"""Objects that are kept, at most, and together no more than `SLICE_BYTES`."""


class Kept:
    """The answers of a server without ranges, by key: a shard whose index was read is not sent again for each chunk.

    Only a request for a definite version is answered from here, after a HEAD that says that it is still the one that is
    stored. Threads need no lock: what is kept is replaced, never changed.
    """

    def __init__(self) -> None:
        self._answers: dict[str, Answer] = {}

    def __bool__(self) -> bool:
        return bool(self._answers)

    def find(self, key: str, want: Want) -> Answer | None:
        """Return the answer that `want` would have, where it is here."""
        if not self._answers or want.range is None or want.etag is None:
            return None
        answer = self._answers.get(key)
        return answer if answer is not None and etag_of(answer.headers) == want.etag else None

    def keep(self, key: str, want: Want, answer: Answer) -> None:
        """Keep an answer, where it is a whole object in place of a part of it; the oldest ones make room."""
        verdict = answer.verdict
        if not isinstance(verdict, Accept) or not verdict.cut:
            return
        etag = etag_of(answer.headers)
        if etag is None or etag.startswith("W/"):
            return
        size = memoryview(answer.body).nbytes
        if resolve_range(size, want.range) == (0, size):
            return
        room = SLICE_BYTES
        answers = {name: each for name, each in self._answers.items() if name != key} | {key: answer}
        fitting: dict[str, Answer] = {}
        for name, each in reversed(answers.items()):
            room -= memoryview(each.body).nbytes
            if room < 0 or len(fitting) == MOST:
                break
            fitting[name] = each
        self._answers = dict(reversed(fitting.items()))

    def clear(self) -> None:
        """Forget all."""
        self._answers = {}
