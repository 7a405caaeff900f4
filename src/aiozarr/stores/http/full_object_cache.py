"""A cache of whole objects that came in place of ranges, for further ranges of the same version."""

from __future__ import annotations

from aiozarr.http1 import Accept, Expectation, Response, etag_of
from aiozarr.http1.response_check import MAX_CUT_BYTES
from aiozarr.model import resolve_range

MAX_OBJECTS = 64
"""The most objects that are cached, together no more than `MAX_CUT_BYTES`."""


class FullObjectCache:
    """The responses of a server without ranges, by key: it does not send a shard again for each of its chunks.

    Only a request for a certain version is answered from the cache, after a HEAD has confirmed that version. Threads
    need no lock: the dictionary is replaced, never changed.

    Attributes:
        responses: the cached responses, by key.
    """

    def __init__(self) -> None:
        self.responses: dict[str, Response] = {}

    def find(self, key: str, expectation: Expectation) -> Response | None:
        """Return the cached response for `expectation`, or None."""
        if not self.responses or expectation.range is None or expectation.etag is None:
            return None
        response = self.responses.get(key)
        return response if response is not None and etag_of(response.headers) == expectation.etag else None

    def add(self, key: str, expectation: Expectation, response: Response) -> None:
        """Add a response if it is a whole object in place of a part of it; the oldest ones are evicted."""
        action = response.action
        if not isinstance(action, Accept) or not action.cut:
            return
        etag = etag_of(response.headers)
        if etag is None or etag.startswith("W/"):
            return
        size = memoryview(response.body).nbytes
        if resolve_range(size, expectation.range) == (0, size):
            return
        room = MAX_CUT_BYTES
        responses = {name: each for name, each in self.responses.items() if name != key} | {key: response}
        fitting: dict[str, Response] = {}
        for name, each in reversed(responses.items()):
            room -= memoryview(each.body).nbytes
            if room < 0 or len(fitting) == MAX_OBJECTS:
                break
            fitting[name] = each
        self.responses = dict(reversed(fitting.items()))

    def clear(self) -> None:
        """Remove all responses."""
        self.responses = {}
