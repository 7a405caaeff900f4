"""The choice of chunk shapes from constraints: TensorStore's algorithm, and a better choice where that fails.

A pure function of the constraints and the shape of the array. Explicit lengths are taken, and fitted to each other so
that read chunks divide write chunks. Free dimensions get the largest lengths of the wanted ratio whose product does
not exceed the wanted number of elements; the type of the elements plays no part.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from aiozarr.driver.chunk_layout import WHOLE, Grid, PerDimension
from aiozarr.driver.json_members import invalid

DEFAULT_ELEMENTS = 1 << 20
MAX_PRODUCT = (1 << 63) - 1
MAX_LENGTH = float(1 << 62)
MAX_TRIAL_DIVISOR = 1 << 16
"""Longer prime factors are found only as the rest of a division: enough for all lengths below 2**32."""
TRAP_RATIO = 64
"""Read chunks with this many times fewer elements than wanted come from a write length without suitable divisors."""


@dataclass(frozen=True)
class ChunkShapes:
    """The chosen shapes; each read length divides the write length."""

    read: tuple[int, ...]
    write: tuple[int, ...]


def choose_chunk_shapes(read: Grid, write: Grid, shape: Sequence[int], *, exact: bool = False) -> ChunkShapes:
    """Return the shapes of read and write chunks.

    Args:
        read: constraints on the chunks that can be read by themselves.
        write: constraints on the chunks that are stored as one object.
        shape: lengths of the array.
        exact: choose as TensorStore does also where the write length has no suitable divisor, such as a prime. Then
            its read chunks have a few elements. Otherwise some dimensions of a read chunk are as long as the write
            chunk.

    Raises:
        InvalidSpecError: hard constraints on both do not divide.
    """
    reads, writes = _known_lengths(read.shape, shape), _known_lengths(write.shape, shape)
    _reconcile(reads, writes, _hard(read.shape, len(shape)), _hard(write.shape, len(shape)))
    free = [not each for each in reads]
    chosen = _complete(reads, read, shape, lambda i, size: nearest_divisor(writes[i], size) if writes[i] else size)
    if not exact and any(free):
        wanted = _complete(reads, read, shape, lambda i, size: min(size, writes[i] or size))
        if prod(chosen) * TRAP_RATIO <= prod(wanted):
            chosen = _without_trap(chosen, free, writes, read)
    stored = _complete(writes, write, shape, lambda i, size: nearest_multiple(chosen[i], size))
    return ChunkShapes(tuple(chosen), tuple(stored))


def nearest_divisor(length: int, wanted: int) -> int:
    """Return the divisor of `length` that is nearest to `wanted`, of two the smaller one."""
    divisors = _divisors(length)
    position = bisect_right(divisors, wanted)
    return min(divisors[max(0, position - 1) : position + 1], key=lambda divisor: abs(divisor - wanted))


@lru_cache(maxsize=64)
def _divisors(length: int) -> Sequence[int]:
    """Return the divisors of `length` in ascending order, except products of prime factors that were not found."""
    found, rest = [1], length
    for factor in range(2, MAX_TRIAL_DIVISOR):
        if factor * factor > rest:
            break
        powers = [1]
        while rest % factor == 0:
            rest //= factor
            powers.append(powers[-1] * factor)
        if len(powers) > 1:
            found = [divisor * power for divisor in found for power in powers]
    if rest > 1:
        found += [divisor * rest for divisor in found]
    return sorted(found)


def nearest_multiple(length: int, wanted: int) -> int:
    """Return the multiple of `length` that is nearest to `wanted`, of two the smaller one, and at least `length`."""
    below = wanted // length * length
    if not below:
        return length
    return below if wanted - below <= below + length - wanted else below + length


def _known_lengths(constraint: PerDimension[int], shape: Sequence[int]) -> list[int]:
    """Return the constrained lengths, 0 for free ones."""
    if constraint is None:
        return [0] * len(shape)
    return [
        0 if each is None else max(1, length) if each.value == WHOLE else each.value
        for each, length in zip(constraint, shape, strict=True)
    ]


def _hard(constraint: PerDimension[int], rank: int) -> list[bool]:
    return [False] * rank if constraint is None else [each is not None and each.hard for each in constraint]


def _reconcile(reads: list[int], writes: list[int], read_hard: Sequence[bool], write_hard: Sequence[bool]) -> None:
    """Change soft lengths until all read lengths divide the write lengths."""
    for i, (read, write) in enumerate(zip(reads, writes, strict=True)):
        if not read or not write or write % read == 0:
            continue
        if read_hard[i] and write_hard[i]:
            reason = f"read chunks of {read} do not divide write chunks of {write} in dimension {i}"
            raise invalid(f"schema.chunk_layout.read_chunk.shape[{i}]", reason)
        if read_hard[i]:
            writes[i] = nearest_multiple(read, write)
        else:
            reads[i] = nearest_divisor(write, read)


def _complete(known: Sequence[int], grid: Grid, shape: Sequence[int], fit: Callable[[int, int], int]) -> list[int]:
    """Return the lengths with those that are 0 chosen; `fit(i, size)` is the allowed length nearest to `size`."""
    free = [i for i, length in enumerate(known) if not length]
    if not free:
        return list(known)
    target = DEFAULT_ELEMENTS if grid.elements is None else grid.elements.value
    given = grid.aspect_ratio or (None,) * len(known)
    ratio = [1.0 if each is None else float(each.value) for each in given]
    longest = [min(float(target), max(1.0, float(length)), MAX_LENGTH) for length in shape]

    def lengths(factor: float) -> list[int]:
        return [length or fit(i, max(1, int(min(ratio[i] * factor, longest[i])))) for i, length in enumerate(known)]

    def count(factor: float) -> int:
        return min(prod(lengths(factor)), MAX_PRODUCT)

    step = min([1 / ratio[i] for i in free]) / 2
    low, high = step, 2 * max([longest[i] / ratio[i] for i in free])
    high_count = count(high)
    while low + step < high:
        middle = low + (high - low) / 2
        if not low < middle < high:
            break  # the step is finer than these numbers are
        total = count(middle)
        if total >= target:
            high, high_count = middle, total
        if total <= target:
            low = middle
    return lengths(high if high_count == target else low)


def _without_trap(chosen: Sequence[int], free: Sequence[bool], writes: Sequence[int], grid: Grid) -> list[int]:
    """Return read lengths that are not far too small because write lengths lack divisors.

    From the last dimension on, each free dimension takes its longest divisor that keeps the chunk within the wanted
    number of elements.
    """
    target = DEFAULT_ELEMENTS if grid.elements is None else grid.elements.value
    better = list(chosen)
    for i in reversed(range(len(better))):
        if free[i] and writes[i]:
            allowed = target // max(1, prod(better) // better[i])
            better[i] = max(better[i], _longest_divisor(writes[i], allowed))
    return better


def _longest_divisor(length: int, longest: int) -> int:
    divisors = _divisors(length)
    return divisors[max(1, bisect_right(divisors, longest)) - 1]
