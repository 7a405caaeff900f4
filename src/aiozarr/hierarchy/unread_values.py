"""Refuses to use a handle in place of its values: `if view`, `view == 5`, `view + 1` and `view.mean()` are errors.

A handle holds no values until it is read. Python's defaults would give such an expression a wrong value: after a
forgotten `await`, `if view:` would be true and `view == 5` false.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Number
from typing import TYPE_CHECKING, NoReturn

import numpy as np


class UnreadValuesError(TypeError, AttributeError):
    """A handle was used in place of its values. Also an `AttributeError`, so that `hasattr` returns False."""


def unread_error(handle: object, use: str) -> UnreadValuesError:
    """Return the error of using a handle in place of its values; `use` is the expression or operation."""
    kind = type(handle)
    is_blocking = kind.__module__.startswith("aiozarr.sync")
    name = f"aiozarr.{'sync.' if is_blocking else ''}{kind.__name__}"
    read = {
        ("Array", False): "`await array[...]` reads them",
        ("View", False): "await it: `await view` reads them",
        ("Array", True): "`array[...]` reads them",
        ("View", True): "`view.read()` reads them",
    }[(kind.__name__, is_blocking)]
    if use == "dask":
        read = "an array of aiozarr.sync reads them in dask's threads: `aiozarr.sync.open_array`"
    return UnreadValuesError(f"{use} needs values, and an {name} holds none; {read}")


def equal_handles(handle: object, other: object) -> bool:
    """Return whether two handles are the same object.

    Raises:
        UnreadValuesError: `other` is a value and not a handle.
    """
    if isinstance(other, Number | str | bytes | list | tuple | np.ndarray | np.generic):
        raise unread_error(handle, "`==`")
    return handle is other


# Methods and attributes of numpy arrays that no handle has.
NUMPY_NAMES = frozenset(
    name for name in dir(np.ndarray) if not name.startswith("_") and name not in ("device", "to_device")
)

# Names of methods in zarr-python, h5py and TensorStore, and their counterparts here.
FOREIGN_NAMES = {
    "get_basic_selection": "array[selection]",
    "set_basic_selection": "writing array[selection]",
    "get_orthogonal_selection": "array.oindex[selection]",
    "set_orthogonal_selection": "writing array.oindex[selection]",
    "get_coordinate_selection": "array.vindex[selection]",
    "set_coordinate_selection": "writing array.vindex[selection]",
    "get_mask_selection": "array[mask]",
    "get_block_selection": "array.blocks[selection]",
    "set_block_selection": "writing array.blocks[selection]",
    "read": "reading array[...]",
    "write": "writing array[...]",
    "read_direct": "read(out=...) of a view",
    "cdata_shape": "array.blocks.shape",
    "nchunks_initialized": "array.info()",
    "nbytes_stored": "array.info()",
    "chunk_layout": "array.chunks, with array.shards,",
    "basename": "array.name",
    "compressor": "array.metadata.codecs",
    "compressors": "array.metadata.codecs",
    "filters": "array.metadata.codecs",
    "maxshape": "array.resize, which has no limit,",
    "iter_chunks": "iterating over array.blocks",
    "values": "reading array[...]",
}

_UNARY = {"neg": "-", "pos": "+", "abs": "abs()", "invert": "~", "float": "float()", "int": "int()"}
_UNARY |= {"complex": "complex()", "index": "an index", "round": "round()", "trunc": "trunc()"}
_BINARY = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**"}
_BINARY |= {"matmul": "@", "and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>", "divmod": "divmod()"}
_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


class UnreadValues:
    """Base of handles whose truth, comparison, arithmetic, formatting and numpy methods raise `UnreadValuesError`."""

    __slots__ = ()

    # A handle is hashable by its identity, although comparing it by value is an error.
    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise unread_error(self, "a truth value")

    def __format__(self, spec: str) -> str:
        if spec:
            raise unread_error(self, f"the format {spec!r}")
        return str(self)

    def __contains__(self, item: object) -> bool:
        raise unread_error(self, "`in`")

    def _refuse_iteration(self) -> NoReturn:
        """Refuse iteration. Without this `__iter__`, Python would iterate over `handle[0], handle[1], ...`."""
        raise unread_error(self, "iterating")

    # Hidden from type checkers, for which they would make every attribute and assignment valid.
    if not TYPE_CHECKING:

        def __setitem__(self, selection: object, values: object) -> None:
            is_blocking = type(self).__module__.startswith("aiozarr.sync")
            write = "`view[...].write(values)`" if is_blocking else "`await array[...].write(values)`"
            raise TypeError(f"a selection cannot be assigned here; use {write}")

        def __getattr__(self, name: str) -> NoReturn:
            if name in NUMPY_NAMES:
                raise unread_error(self, f"`.{name}`")
            advice = f"; {FOREIGN_NAMES[name]} does that" if name in FOREIGN_NAMES else ""
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}{advice}", name=name, obj=self
            )


def _refusal(symbol: str) -> Callable[..., NoReturn]:
    def refuse(self: object, *_: object) -> NoReturn:
        raise unread_error(self, f"`{symbol}`" if symbol != "an index" else symbol)

    return refuse


def _add_refusals() -> None:
    for names, is_reflected in ((_UNARY, False), (_BINARY, True), (_COMPARISONS, False)):
        for name, symbol in names.items():
            setattr(UnreadValues, f"__{name}__", _refusal(symbol))
            if is_reflected:
                setattr(UnreadValues, f"__r{name}__", _refusal(symbol))


_add_refusals()
