"""Journals of interrupted copies and conversions: they are refused, or the result is that of an undisturbed run."""

from __future__ import annotations

import json
from hashlib import blake2b
from random import Random
from typing import Any, ClassVar

import numpy as np

import aiozarr
from aiozarr.stores import MemoryStore
from aiozarr.testing.fakes import FakeStore
from aiozarr.testing.faults import Action, Call
from tests.fuzz.behind_open import filled, values_of
from tests.fuzz.mutate import JsonMutator, decoded, mutated_bytes, plain
from tests.fuzz.target import Target
from tests.fuzz.watchdog import allowed

VALUES = np.arange(8 * 6 * 5, dtype="i4").reshape(8, 6, 5)
OPTIONS: dict[str, Any] = {"chunks": (4, 4, 4), "max_memory": 4000}


def fails_after(count: int) -> Any:
    """Return faults with which all writes but the first `count` fail, other than those of a journal."""
    writes = 0

    def plan(call: Call) -> Action:
        nonlocal writes
        writes += call.operation == "set" and "aiozarr" not in call.key
        return aiozarr.StoreError("no more") if writes > count and "aiozarr" not in call.key else None

    return plan


class Journal(Target):
    """The base: a destination with a journal, which an interrupted run has left."""

    quick = 25
    journal: ClassVar[str]

    async def prepare(self) -> None:
        # The journal names the source: a store without a name has another one in each process.
        self._source = MemoryStore.named(f"fuzz-{self.name}")
        array = await aiozarr.create_array(
            self._source, shape=VALUES.shape, chunks=(8, 3, 5), dtype="i4", overwrite=True
        )
        await array[...].write(VALUES)
        destination = FakeStore(latency=0, faults=fails_after(2))
        assert isinstance(await allowed(self.perform(destination, resume=False)), aiozarr.AiozarrError)
        self._left = await values_of(destination.memory)
        self._keys = sorted(key for key in self._left if self.journal in key)
        assert self._keys, "an interrupted run has left a journal"
        documents = [decoded(self._left[key]) for key in self._keys if key.endswith(".json")]
        self._mutator = JsonMutator(documents)

    async def perform(self, destination: Any, *, resume: bool) -> Any:
        raise NotImplementedError

    def draw(self, rng: Random) -> tuple[dict[str, bytes], bool]:
        values, is_forged = dict(self._left), False
        key = rng.choice(self._keys)
        match rng.randrange(8):
            case 0:
                del values[key]
            case 1:
                values[f"{key.rpartition('/')[0]}/{rng.choice(['x', '0', '99999999999999', '-1', '٣'])}"] = values[key]
            case 2 | 3:
                values[key] = mutated_bytes(rng, values[key])
            case _ if key.endswith(".json"):
                honest = decoded(values[key])
                values[key] = self._mutator.text(rng, honest)
                if rng.randrange(2):
                    forged = _forged(plain(self._mutator.changed(rng, honest)))
                    values[key], is_forged = forged or values[key], forged is not None
            case _:
                values[key] = rng.randbytes(rng.choice([1, 16, 33]))
        return values, is_forged

    async def run(self, value: tuple[dict[str, bytes], bool]) -> None:
        values, is_forged = value
        destination = filled(values)
        result = await allowed(self.perform(destination, resume=True))
        if not isinstance(result, BaseException) and not is_forged:
            array = await aiozarr.open_array(destination)
            assert np.array_equal(await array[...], VALUES), "a resumed run has left out elements"


def _forged(members: Any) -> bytes | None:
    """Return a journal whose checksum is right for its members; None if it has no checksum."""
    if not isinstance(members, dict) or "checksum" not in members:
        return None
    del members["checksum"]
    checksum = blake2b(json.dumps(members).encode(), digest_size=16).hexdigest()
    return json.dumps({**members, "checksum": checksum}).encode()


class ConversionJournals(Journal):
    """The journal of a conversion, also with the right checksum of wrong members."""

    name = "conversion-journals"
    journal = "__aiozarr__/conversion.json"

    async def prepare(self) -> None:
        await super().prepare()
        honest = self._left[self.journal]
        assert _forged(json.loads(honest)) in (None, honest), "the checksum is another one"

    async def perform(self, destination: Any, *, resume: bool) -> Any:
        return await aiozarr.convert(self._source, destination, **OPTIONS, resume=resume)


class CopyJournals(Journal):
    """The journal of a copy: its header, and batches of records."""

    name = "copy-journals"
    journal = ".aiozarr-copy~/"

    async def perform(self, destination: Any, *, resume: bool) -> Any:
        return await aiozarr.copy(self._source, destination, resume=resume)
