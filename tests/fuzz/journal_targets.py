"""Journals of interrupted copies and conversions: they are refused, or the result is that of an undisturbed run."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping
from hashlib import blake2b
from random import Random
from typing import Any, ClassVar

import numpy as np

import aiozarr
from aiozarr.stores import MemoryStore
from aiozarr.testing.fakes import FakeStore
from aiozarr.testing.faults import Action, Call
from tests.fuzz.behind_open import values_of
from tests.fuzz.mutate import JsonMutator, decoded, mutated_bytes, plain
from tests.fuzz.target import Target
from tests.fuzz.watchdog import allowed

VALUES = np.arange(8 * 6 * 5, dtype="i4").reshape(8, 6, 5)
OPTIONS: dict[str, Any] = {"chunks": (2, 3, 5), "max_memory": 1000}


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
        # Journals name both stores: a store without a name has another one in each process.
        self._source = MemoryStore.named(f"fuzz-{self.name}")
        self._destination = FakeStore(latency=0)
        self._destination.memory = MemoryStore.named(f"fuzz-{self.name}-destination")
        array = await aiozarr.create_array(
            self._source, shape=VALUES.shape, chunks=(8, 3, 5), dtype="i4", overwrite=True
        )
        await array[...].write(VALUES)
        # Of several interruptions, the one with the longest journal.
        left = [await self._interrupted(count) for count in (2, 5, 7)]
        self._left = max(left, key=lambda values: sum(len(values[key]) for key in values if self.journal in key))
        self._keys = sorted(key for key in self._left if self.journal in key)
        assert not isinstance(await self._resumed(self._left), Exception), "the journal is accepted as it is"
        documents = [decoded(self._left[key]) for key in self._keys if key.endswith(".json")]
        self._mutator = JsonMutator(documents)

    async def _interrupted(self, count: int) -> dict[str, bytes]:
        await self._fill({})
        self._destination.faults = fails_after(count)
        await allowed(self.perform(resume=False))
        return await values_of(self._destination.memory)

    async def _resumed(self, values: Mapping[str, bytes]) -> Any:
        await self._fill(values)
        self._destination.faults = None
        return await allowed(self.perform(resume=True))

    async def _fill(self, values: Mapping[str, bytes]) -> None:
        self._destination.reset()
        await self._destination.memory.erase_prefix("")
        for key, data in values.items():
            await self._destination.memory.set(key, data)

    @abstractmethod
    async def perform(self, *, resume: bool) -> Any:
        """Run the operation that has a journal."""

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
        result = await self._resumed(values)
        if not isinstance(result, Exception) and not is_forged:
            array = await aiozarr.open_array(self._destination.memory)
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

    async def perform(self, *, resume: bool) -> Any:
        return await aiozarr.convert(self._source, self._destination, **OPTIONS, resume=resume)


class CopyJournals(Journal):
    """The journal of a copy: its header, and batches of records."""

    name = "copy-journals"
    journal = ".aiozarr-copy~/"

    async def perform(self, *, resume: bool) -> Any:
        return await aiozarr.copy(self._source, self._destination, resume=resume)
