"""Converts real numbers between types by value, with a choice of rounding and of treatment out of range."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import ml_dtypes
import numpy as np

from aiozarr.codecs.core.codec import AnyArray
from aiozarr.codecs.numeric.scalars import is_integral, limits
from aiozarr.codecs.serializers.storage_type import bits_used
from aiozarr.errors import CodecError

Rounding: TypeAlias = Literal["nearest-even", "towards-zero", "towards-positive", "towards-negative", "nearest-away"]
OutOfRange: TypeAlias = Literal["clamp", "wrap"]

_FLOAT64 = np.dtype(np.float64)


@dataclass(frozen=True)
class Casting:
    """Converts arrays to types that cannot represent all values.

    Attributes:
        rounding: the rounding between two representable values.
        out_of_range: the treatment of values out of range; None raises an error.
        codec: the name of the codec, for errors.
    """

    rounding: Rounding
    out_of_range: OutOfRange | None
    codec: str

    def cast(self, array: AnyArray, target: np.dtype[Any]) -> AnyArray:
        """Return `array`, of integers or floating point numbers, as an array of `target`.

        Raises:
            CodecError: a value is out of range, or is a NaN or infinity that `target` does not have.
        """
        if array.dtype == target:
            return array
        with np.errstate(all="ignore"):
            if is_integral(target):
                return self._to_integers(array, target)
            if is_integral(array.dtype):
                return self._round_off(*_round_to_odd(array), target)
            exact = array.astype(_FLOAT64)
            return exact if target == _FLOAT64 else self._round_off(exact, None, target)

    def _to_integers(self, array: AnyArray, target: np.dtype[Any]) -> AnyArray:
        least, most = limits(target)
        if is_integral(array.dtype):
            wide = _widest(array)
            low, high = wide < least, wide > most
            bits = wide.astype(np.uint64)
        else:
            wide = _round(array.astype(_FLOAT64), self.rounding)
            if not np.isfinite(wide).all():
                raise self._error("there are NaNs or infinities, which integers do not have")
            # Both bounds are powers of two or zero, so they are exact floating point numbers.
            low, high = wide < float(least), wide >= float(most + 1)
            rest = np.fmod(wide, 2.0**64)
            bits = np.abs(rest).astype(np.uint64)
            bits = np.where(rest < 0, np.uint64(0) - bits, bits)
        if low.any() or high.any():
            if self.out_of_range is None:
                raise self._error(f"there are elements that {target} cannot hold")
            if self.out_of_range == "clamp":
                bits = np.where(low, np.uint64(least % (1 << 64)), np.where(high, np.uint64(most), bits))
        used = bits_used(target)
        if used < 8:
            return np.asarray(bits & np.uint64((1 << used) - 1)).astype(np.uint8).view(target)
        return np.asarray(bits).astype(f"u{target.itemsize}").view(target)

    def _round_off(self, values: AnyArray, missed: AnyArray | None, target: np.dtype[Any]) -> AnyArray:
        """Round float64 `values` to a narrower type. `missed` holds the exact integers, if `values` are rounded."""
        special = ~np.isfinite(values)
        if special.any() and not _all_representable(values[special], target):
            raise self._error(f"there are NaNs or infinities, which {target} does not have")
        if target == _FLOAT64:
            return _round_to_float64(values, missed, self.rounding)
        if self.rounding == "nearest-even" and target.isbuiltin == 1:
            # Numpy rounds its own types this way. Results that became infinite are checked below.
            nearest = values.astype(target)
            if np.array_equal(np.isfinite(nearest), ~special):
                return nearest
        info: Any = ml_dtypes.finfo(target)  # type: ignore[no-untyped-call]
        most, least = float(info.max), float(info.min)
        shape = values.shape
        flat = np.atleast_1d(values)
        near = np.clip(flat, least, most).astype(target)
        back = near.astype(_FLOAT64)
        below = np.where(back <= flat, back, np.nextafter(near, target.type(least)).astype(_FLOAT64))
        above = np.where(back >= flat, back, np.nextafter(near, target.type(most)).astype(_FLOAT64))
        # Values up to one step beyond the greatest value are rounded like those in range.
        step = most - float(np.nextafter(target.type(most), target.type(least)))
        out = np.abs(flat) > most if least < 0 else (flat > most) | (flat < least)
        above = np.where(out & (flat > 0), most + step, above)
        below = np.where(out & (flat > 0), most, below)
        if least < 0:
            below = np.where(out & (flat < 0), -most - step, below)
            above = np.where(out & (flat < 0), -most, above)
        chosen = _choose(flat, below, above, near, self.rounding)
        beyond = np.isfinite(flat) & (
            (chosen > most) | (chosen < least) | (flat >= most + step) | (flat <= -most - step)
        )
        if beyond.any():
            if self.out_of_range is None:
                raise self._error(f"there are elements that {target} cannot hold")
            has_infinity = bool(np.isinf(np.array(np.inf).astype(target).astype(_FLOAT64)))
            edge = np.where(flat > 0, np.inf if has_infinity else most, -np.inf if has_infinity else least)
            chosen = np.where(beyond, edge, chosen)
        chosen = np.where(np.isfinite(flat), chosen, flat)
        result = np.copysign(chosen, flat).astype(target) if least < 0 else chosen.astype(target)
        return result.reshape(shape)

    def _error(self, reason: str) -> CodecError:
        return CodecError(f"cannot cast: {reason}", codec=self.codec)


def _widest(array: AnyArray) -> AnyArray:
    return array if array.dtype.isbuiltin == 1 else array.astype(np.int64)


def _round(values: AnyArray, rounding: Rounding) -> AnyArray:
    match rounding:
        case "nearest-even":
            return np.rint(values)
        case "towards-zero":
            return np.trunc(values)
        case "towards-positive":
            return np.ceil(values)
        case "towards-negative":
            return np.floor(values)
        case "nearest-away":
            whole = np.trunc(values)
            return np.where(np.abs(values - whole) >= 0.5, whole + np.copysign(1.0, values), whole)


def _all_representable(values: AnyArray, target: np.dtype[Any]) -> bool:
    back = values.astype(target).astype(_FLOAT64)
    return bool(((np.isnan(back) & np.isnan(values)) | (back == values)).all())


def _round_to_odd(array: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Return integers as float64, and the exact integers.

    Integers of more than 53 bits are rounded to odd: the dropped bits set the last bit that remains. A later rounding
    to a narrower type then still sees on which side of a tie the integer is. Rounding to float64 uses the integers.
    """
    wide = _widest(array)
    negative = wide < 0
    magnitude = wide.astype(np.uint64)
    magnitude = np.where(negative, np.uint64(0) - magnitude, magnitude)
    low = magnitude & np.uint64(0x7FF)
    folded = (magnitude - low) | (low != 0).astype(np.uint64) << np.uint64(11)
    values = np.where(magnitude >> np.uint64(53), folded, magnitude).astype(_FLOAT64)
    return np.where(negative, -values, values), np.asarray(wide)


def _round_to_float64(values: AnyArray, exact: AnyArray | None, rounding: Rounding) -> AnyArray:
    """Return integers rounded to float64."""
    if exact is None:
        return values
    near = exact.astype(_FLOAT64)
    negative = exact < 0
    magnitude = exact.astype(np.uint64)
    magnitude = np.where(negative, np.uint64(0) - magnitude, magnitude)
    size = np.abs(near)
    # The nearest value may be 2**64, which uint64 cannot represent: it is greater than all others.
    whole = np.where(size < 2.0**64, size, 0.0).astype(np.uint64)
    too_high = (size >= 2.0**64) | (whole > magnitude)
    too_low = ~too_high & (whole < magnitude)
    down, up = np.nextafter(size, 0.0), np.nextafter(size, np.inf)
    if rounding == "nearest-away":
        # Ties that were rounded down to even: both neighbours are equally far.
        gap = np.where(too_low, magnitude - whole, np.uint64(0)).astype(_FLOAT64)
        size = np.where(too_low & (gap * 2 == up - size), up, size)
    elif rounding != "nearest-even":
        outward = np.zeros(size.shape, bool) | (rounding != "towards-zero")
        if rounding != "towards-zero":
            outward = negative == (rounding == "towards-negative")
        size = np.where(too_high & ~outward, down, np.where(too_low & outward, up, size))
    return np.where(negative, -size, size)


def _choose(flat: AnyArray, below: AnyArray, above: AnyArray, near: AnyArray, rounding: Rounding) -> AnyArray:
    exact = (below == flat) | (above == flat)
    if rounding == "towards-positive":
        chosen = above
    elif rounding == "towards-negative":
        chosen = below
    elif rounding == "towards-zero":
        chosen = np.where(flat < 0, above, below)
    else:
        to_below, to_above = flat - below, above - flat
        outer, inner = np.where(flat < 0, below, above), np.where(flat < 0, above, below)
        tie = outer if rounding == "nearest-away" else np.where(_is_even(inner, near.dtype), inner, outer)
        chosen = np.where(to_below < to_above, below, np.where(to_above < to_below, above, tie))
    return np.where(exact, flat, chosen)


def _is_even(values: AnyArray, dtype: np.dtype[Any]) -> AnyArray:
    bits = values.astype(dtype).view(f"u{dtype.itemsize}")
    return np.asarray((bits & bits.dtype.type(1)) == 0)
