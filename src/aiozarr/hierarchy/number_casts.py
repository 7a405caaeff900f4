"""Casts numbers block by block, and finds the first value that a rule of casts refuses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any, Literal, TypeAlias

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from aiozarr.common.formatting import argument

AnyArray: TypeAlias = NDArray[Any]

Casting: TypeAlias = Literal["checked", "same_value", "same_kind", "unsafe"]
"""The rule of casts: `same_kind` without overflow, or any cast that keeps every value; or one of numpy's rules."""

BLOCK_SIZE = 1 << 15
"""Elements that are cast and checked at once, so that they stay in the processor's cache."""

# The ranks of kinds; values are cast to the same or a higher rank. "O" are integers beyond 64 bits.
RANK = {"b": 0, "i": 1, "u": 1, "O": 1, "f": 2, "c": 3}
# The numpy types through which the types of ml_dtypes are cast to each other.
_WIDE = {"i": "i8", "u": "u8", "f": "f8", "c": "c16"}
_INTERMEDIATE = {"i": "i1", "u": "u1", "f": "f4", "c": "c8"}


def cast_advice() -> str:
    """Return the end of messages about refused casts."""
    return f"{argument('casting', 'unsafe')} casts as numpy does"


@lru_cache(maxsize=1024)  # called for each block
def number_kind(dtype: np.dtype[Any]) -> str:
    """Return numpy's kind of `dtype`, and `i`, `u`, `f` or `c` for ml_dtypes, whose kind in numpy is V or W."""
    name = dtype.name
    # For types of other packages, numpy reports every cast as `same_kind`.
    if dtype.isbuiltin != 2 or getattr(ml_dtypes, name, None) is not dtype.type:
        return dtype.kind
    for start, kind in (("int", "i"), ("uint", "u"), ("complex", "c"), ("bcomplex", "c")):
        if name.startswith(start):
            return kind
    return "f"


@lru_cache(maxsize=1024)  # called for each block
def is_same_kind(source: np.dtype[Any], target: np.dtype[Any]) -> bool:
    """Return whether numpy's rule `same_kind` allows the cast, also for types of ml_dtypes."""
    if source.isbuiltin != 2 and target.isbuiltin != 2:
        return np.can_cast(source, target, casting="same_kind")
    one, other = number_kind(source), number_kind(target)
    return one in RANK and one != "O" and RANK[one] <= RANK[other] and (one, other) != ("i", "u")


@lru_cache(maxsize=1024)  # called for each block
def limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    """Return the smallest and the largest value of bools or of an integer type."""
    if dtype.kind == "b":
        return 0, 1
    found: Any = np.iinfo(dtype) if dtype.isbuiltin != 2 else ml_dtypes.iinfo(dtype)  # type: ignore[no-untyped-call]
    return int(found.min), int(found.max)


def cast_numbers(
    natural: AnyArray, dtype: np.dtype[Any], casting: Casting, origin: Sequence[int] | None = None
) -> AnyArray:
    """Return numbers as an array of `dtype`, in the same order in memory.

    Args:
        natural: numbers or bools.
        dtype: a numeric type.
        casting: the rule.
        origin: the index of the first element, which is added to the index in an error.

    Raises:
        TypeError: the rule refuses the types, or a value has a fraction or an imaginary part.
        OverflowError: by "checked", a value is out of range; the error names the first one and its index.
        ValueError: by "same_value", a value would change.
    """
    if not needs_check(natural.dtype, dtype, casting) or not natural.size:
        return cast_unchecked(natural, dtype)
    # The result has the memory layout of `natural`, as with `astype`.
    result = np.empty_like(natural, dtype, subok=False)
    axes = sorted(range(natural.ndim), key=lambda axis: -abs(natural.strides[axis]))
    source, target = natural.transpose(axes), result.transpose(axes)
    for block in _blocks(source.shape):
        converted = cast_unchecked(source[block], dtype)
        if not _keeps(source[block], converted, casting):
            raise _first_error(natural, dtype, casting, origin)
        target[block] = converted
    return result


@lru_cache(maxsize=1024)
def needs_check(source: np.dtype[Any], target: np.dtype[Any], casting: Casting) -> bool:
    """Return whether a cast by this rule depends on the values, and not on their types alone.

    Raises:
        TypeError: the rule "same_kind" refuses the types, or the values are not numbers.
    """
    if casting == "unsafe" or source == target:
        return False
    same_kind = is_same_kind(source, target)
    if number_kind(source) not in "biufc" or (casting == "same_kind" and not same_kind):
        raise TypeError(
            f"values of type {source} cannot be cast to {target} under numpy's rule 'same_kind'; {cast_advice()}"
        )
    # Casts are monotonic: if they keep the extremes, they keep all values.
    return (
        casting != "same_kind"
        and not _kept(samples := _extremes(source), cast_unchecked(samples, target), casting).all()
    )


def cast_unchecked(natural: AnyArray, dtype: np.dtype[Any]) -> AnyArray:
    """Cast numbers as numpy's assignment does, without its warnings."""
    if number_kind(natural.dtype) == "c" and number_kind(dtype) not in "bc":
        natural = np.real(widened(natural, _INTERMEDIATE))
    elif natural.dtype.isbuiltin == dtype.isbuiltin == 2 and natural.dtype != dtype:
        natural = widened(natural, _INTERMEDIATE)
    with np.errstate(all="ignore"):
        return natural.astype(dtype, copy=False)


def widened(values: AnyArray, types: dict[str, str] = _WIDE) -> AnyArray:
    """Return numbers of ml_dtypes as numbers of numpy."""
    return values.astype(types[number_kind(values.dtype)]) if values.dtype.isbuiltin == 2 else values


def _blocks(shape: tuple[int, ...]) -> Iterator[tuple[Any, ...]]:
    """Iterate in C order over regions of at most `BLOCK_SIZE` elements."""
    axis = next((axis for axis in range(len(shape)) if prod(shape[axis + 1 :]) <= BLOCK_SIZE), None)
    if axis is None:
        yield (...,)
        return
    step = max(1, BLOCK_SIZE // prod(shape[axis + 1 :]))
    for outer in product(*map(range, shape[:axis])):
        for start in range(0, shape[axis], step):
            yield (*outer, slice(start, start + step), ...)


def _extremes(dtype: np.dtype[Any]) -> AnyArray:
    """Return the values of a type at which a cast can fail."""
    kind = number_kind(dtype)
    if kind in "biu":
        low, high = limits(dtype)
        return np.array(sorted({low, 0, high}), "u8" if kind == "u" else "i8").astype(dtype)
    if kind == "f" and dtype.itemsize == 1:
        return np.arange(256, dtype=np.uint8).view(dtype)
    if kind == "c":
        parts = np.array([0, 1, 1j, np.inf, complex(0, np.inf)]).astype(dtype)
        return np.concatenate([parts, _complex_limits(dtype)])
    info: Any = ml_dtypes.finfo(dtype) if dtype.isbuiltin == 2 else np.finfo(dtype)  # type: ignore[no-untyped-call]
    bounds = [np.array(each, dtype) for each in (info.max, info.min, info.smallest_subnormal)]
    return np.concatenate([np.array([0, 1, 0.5, np.inf, -np.inf, np.nan]).astype(dtype), bounds])


def _complex_limits(dtype: np.dtype[Any]) -> AnyArray:
    info: Any = ml_dtypes.finfo(dtype) if dtype.isbuiltin == 2 else np.finfo(dtype)  # type: ignore[no-untyped-call]
    most, least = complex(info.max), complex(info.smallest_subnormal)
    return np.array([most, least, complex(0, most.real), complex(0, least.real)]).astype(dtype)


def _is_exact(source: np.dtype[Any], target: np.dtype[Any], casting: Casting) -> bool:
    return casting == "same_value" or not is_same_kind(source, target)


def _keeps(values: AnyArray, converted: AnyArray, casting: Casting) -> bool:
    """Return whether the rule allows all values of a block. The usual case needs no memory, or a bool per element."""
    source, target = number_kind(values.dtype), number_kind(converted.dtype)
    if source in "biu" and target in "biu":
        low, high = limits(converted.dtype)
        values = widened(values, _INTERMEDIATE)
        return low <= int(values.min()) and int(values.max()) <= high
    if (
        target in "fc"
        and not _is_exact(values.dtype, converted.dtype, casting)
        and _saturation(converted.dtype) is None
        and np.isfinite(widened(converted, _INTERMEDIATE)).all()
    ):
        return True
    return bool(_kept(values, converted, casting).all())


def _kept(values: AnyArray, converted: AnyArray, casting: Casting) -> AnyArray:
    """Return which values the rule allows to become `converted`."""
    exact = _is_exact(values.dtype, converted.dtype, casting)
    dtype, target = converted.dtype, number_kind(converted.dtype)
    wide, wide_converted = widened(values), widened(converted)
    if target == "c":
        return _kept_parts(np.real(wide), np.real(wide_converted), dtype, exact=exact) & _kept_parts(
            np.imag(wide), np.imag(wide_converted), dtype, exact=exact
        )
    is_complex = wide.dtype.kind == "c"
    kept = _kept_parts(np.real(wide) if is_complex else wide, wide_converted, dtype, exact=exact)
    return kept & (np.imag(wide) == 0) if is_complex else kept


def _kept_parts(part: AnyArray, converted: AnyArray, dtype: np.dtype[Any], *, exact: bool) -> AnyArray:
    """Do the same as `_kept` for real numbers of numpy's own types; `dtype` is the type of the result."""
    if number_kind(dtype) in "biu":
        inside = _in_range(part, dtype)
        return inside & (np.trunc(part) == part) if part.dtype.kind == "f" else inside
    kept: AnyArray
    if exact:
        if part.dtype.kind in "biu":
            # A float beyond the integers must not be cast back to one: the result depends on the processor.
            low, high = limits(part.dtype)
            converted = converted.astype(np.result_type(converted, np.float64))
            inside = np.isfinite(converted) & (converted >= low) & (converted < float(high + 1))
            kept = inside & (np.where(inside, converted, 0).astype(part.dtype) == part)
            return kept
        with np.errstate(all="ignore"):
            kept = (converted.astype(part.dtype) == part) | (np.isnan(converted) & np.isnan(part))
        return kept
    bound = _saturation(dtype)
    if bound is not None:
        kept = np.abs(part.astype(float)) < bound
        return kept
    kept = (np.isfinite(part) == np.isfinite(converted)) & (np.isnan(part) == np.isnan(converted))
    return kept


def _in_range(part: AnyArray, dtype: np.dtype[Any]) -> AnyArray:
    low, high = limits(dtype)
    if part.dtype.kind == "f":
        # Both limits are powers of two, so they are exact as floats, or infinite in a narrow type.
        with np.errstate(over="ignore"):
            least, beyond = np.array(float(low)).astype(part.dtype), np.array(float(high + 1)).astype(part.dtype)
        last = part <= high if high == 1 else part < beyond
        return np.isfinite(part) & (part >= least) & last
    own_low, own_high = limits(part.dtype)
    return (part >= max(low, own_low)) & (part <= min(high, own_high))


@lru_cache(maxsize=64)
def _saturation(dtype: np.dtype[Any]) -> float | None:
    """Return the size from which a float type without infinity and NaN rounds values to its largest one."""
    if (
        dtype.isbuiltin != 2
        or number_kind(dtype) != "f"
        or not np.isfinite(np.array(np.nan).astype(dtype).astype("f4"))
    ):
        return None
    values = np.unique(np.arange(256, dtype=np.uint8).view(dtype).astype(float))
    return float(values[-1] + (values[-1] - values[-2]) / 2)


def _first_error(
    natural: AnyArray, dtype: np.dtype[Any], casting: Casting, origin: Sequence[int] | None
) -> TypeError | OverflowError | ValueError:
    """Return the error of the first value, in C order, that the rule refuses."""
    index: tuple[int, ...] = ()
    for block in _blocks(natural.shape):
        values = natural[block]
        kept = _kept(values, cast_unchecked(values, dtype), casting)
        if not kept.all():
            inner = np.unravel_index(int(np.argmin(kept.reshape(-1))), kept.shape)
            starts = [each.start if isinstance(each, slice) else each for each in block[:-1]]
            outer = sum([not isinstance(each, slice) for each in block[:-1]])
            steps = [*[0] * outer, *map(int, inner)]
            index = tuple([start + step for start, step in zip([*starts, *[0] * natural.ndim], steps, strict=False)])
            break
    value = natural[index]
    part = widened(np.asarray(value))
    real = np.real(part)
    is_overflow = (
        not bool(_in_range(real, dtype)) if number_kind(dtype) in "biu" else _leaves_range(part, natural[index], dtype)
    )
    shown = tuple([at + start for at, start in zip(index, origin or (0,) * len(index), strict=True)])
    place = f" at {shown}" if shown else ""
    what = "is out of range for" if is_overflow and not np.isnan(part) else "is not one of"
    message = f"the value {value}{place}, of type {natural.dtype}, {what} {dtype}; {cast_advice()}"
    if casting == "same_value":
        return ValueError(message)
    return OverflowError(message) if is_overflow else TypeError(message)


def _leaves_range(part: AnyArray, value: Any, dtype: np.dtype[Any]) -> bool:
    """Return whether a number is outside of the range of a float type, and not only inexact in it."""
    if part.dtype.kind == "c" and number_kind(dtype) != "c":
        part = np.real(part)
    converted = cast_unchecked(np.asarray(value), dtype)
    if number_kind(dtype) == "c":
        pairs = [(np.real(part), np.real(widened(converted))), (np.imag(part), np.imag(widened(converted)))]
    else:
        pairs = [(part, widened(converted))]
    return not all([bool(_kept_parts(np.asarray(a), np.asarray(b), dtype, exact=False)) for a, b in pairs])
