"""Whole objects that came in place of ranges, kept for the ranges of the same version that are asked for next."""

from __future__ import annotations

import time

from aiozarr.model import resolve_range
from aiozarr.stores.lane.connection import Answer
from aiozarr.stores.lane.judge import SLICE_BYTES, Accept, Want, etag_of

MOST = 64
"""Objects that are kept, at most, and together no more than `SLICE_BYTES`."""

SECONDS = 5.0
"""How long they are: for the ranges that follow from what was just read, and not for the next reader."""


class Kept:
    """The answers of a server without ranges, by key: a shard whose index was read is not sent again for each chunk.

    Only a request for a definite version is answered from here, and not for long: what others write is seen. Threads
    need no lock: what is kept is replaced, never changed.
    """

    def __init__(self) -> None:
        self._answers: dict[str, tuple[float, Answer]] = {}

    def find(self, key: str, want: Want) -> Answer | None:
        """Return the answer that `want` would have, where it is here."""
        if not self._answers or want.range is None or want.etag is None:
            return None
        since, answer = self._answers.get(key, (0.0, None))
        if answer is None or etag_of(answer.headers) != want.etag or time.monotonic() - since > SECONDS:
            return None
        return answer

    def keep(self, key: str, want: Want, answer: Answer) -> None:
        """Keep an answer, where it is a whole object in place of a part of it; the oldest ones make room."""
        verdict, etag = answer.verdict, etag_of(answer.headers)
        if not isinstance(verdict, Accept) or not verdict.cut or etag is None or etag.startswith("W/"):
            return
        size = memoryview(answer.body).nbytes
        if resolve_range(size, want.range) == (0, size):
            return
        now, room = time.monotonic(), SLICE_BYTES
        answers = {name: each for name, each in self._answers.items() if name != key} | {key: (now, answer)}
        fitting: dict[str, tuple[float, Answer]] = {}
        for name, (since, each) in reversed(answers.items()):
            room -= memoryview(each.body).nbytes
            if room < 0 or len(fitting) == MOST or now - since > SECONDS:
                break
            fitting[name] = since, each
        self._answers = dict(reversed(fitting.items()))

    def clear(self) -> None:
        """Forget all."""
        self._answers = {}
