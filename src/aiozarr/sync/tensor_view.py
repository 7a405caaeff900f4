"""The blocking `TensorView`: each method runs that of the asynchronous view and waits for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike

from aiozarr import driver
from aiozarr.common.progress import ProgressLike
from aiozarr.driver.tensor_view import AnyArray, ByDimension
from aiozarr.hierarchy.casting import convert_values, is_large_cast
from aiozarr.sync.array import Array
from aiozarr.sync.wait import Forwarded, blocking_method, unchanged, wait


class TensorView:
    """A view of an array, with a domain of indices; see `aiozarr.driver.TensorView`. Indexing makes views."""

    __slots__ = ("_async",)

    # Without this, iteration would fall back to view[0], view[1], ...
    __iter__ = None

    def __init__(self, view: driver.TensorView) -> None:
        self._async = view

    array = Forwarded(driver.TensorView, lambda view: Array(view.array))
    domain = Forwarded(driver.TensorView, lambda view: view.domain)
    rank = Forwarded(driver.TensorView, lambda view: view.rank)
    ndim = Forwarded(driver.TensorView, lambda view: view.ndim)
    shape = Forwarded(driver.TensorView, lambda view: view.shape)
    origin = Forwarded(driver.TensorView, lambda view: view.origin)
    size = Forwarded(driver.TensorView, lambda view: view.size)
    dtype = Forwarded(driver.TensorView, lambda view: view.dtype)
    fill_value = Forwarded(driver.TensorView, lambda view: view.fill_value)
    dimension_units = Forwarded(driver.TensorView, lambda view: view.dimension_units)
    chunk_layout = Forwarded(driver.TensorView, lambda view: view.chunk_layout)
    codec = Forwarded(driver.TensorView, lambda view: view.codec)
    schema = Forwarded(driver.TensorView, lambda view: view.schema)
    readable = Forwarded(driver.TensorView, lambda view: view.readable)
    writable = Forwarded(driver.TensorView, lambda view: view.writable)
    url = Forwarded(driver.TensorView, lambda view: view.url)

    def spec(self, *, minimal_spec: bool = False) -> dict[str, Any]:
        """Return the JSON that opens this view again; see `aiozarr.driver.TensorView.spec`."""
        return self._async.spec(minimal_spec=minimal_spec)

    def __getitem__(self, selection: Any) -> TensorView:
        """Return the view of a selection, without I/O; errors are the same as for `aiozarr.driver.TensorView`."""
        return TensorView(self._async[selection])

    @property
    def oindex(self) -> ByDimension[TensorView]:
        """Orthogonal indexing: `view.oindex[selection]` is a view."""
        return self._wrapped(self._async.oindex)

    @property
    def vindex(self) -> ByDimension[TensorView]:
        """Pointwise indexing: `view.vindex[selection]` is a view."""
        return self._wrapped(self._async.vindex)

    @property
    def translate_to(self) -> ByDimension[TensorView]:
        """`view.translate_to[0, 0]`: the view whose domain begins at these indices."""
        return self._wrapped(self._async.translate_to)

    @property
    def translate_by(self) -> ByDimension[TensorView]:
        """`view.translate_by[5, -1]`: the view whose domain is moved by these offsets."""
        return self._wrapped(self._async.translate_by)

    @property
    def translate_backward_by(self) -> ByDimension[TensorView]:
        """`view.translate_backward_by[5, 1]`: the view whose domain is moved back by these offsets."""
        return self._wrapped(self._async.translate_backward_by)

    @property
    def label(self) -> ByDimension[TensorView]:
        """`view.label["x", "y"]`: the view with these labels."""
        return self._wrapped(self._async.label)

    def transpose(self, order: Sequence[int | str] | None = None) -> TensorView:
        """Return the view with its dimensions in another order; see `aiozarr.driver.TensorView.transpose`."""
        return TensorView(self._async.transpose(order))

    T = Forwarded(driver.TensorView, lambda view: TensorView(view.T))

    def read(self, out: AnyArray | None = None, progress: ProgressLike = None) -> AnyArray:
        """Read the elements; arguments and errors are the same as for `aiozarr.driver.TensorView.read`."""
        return wait(lambda callback: self._async.read(out, callback), progress)

    def write(self, values: ArrayLike, progress: ProgressLike = None) -> None:
        """Write `values`; arguments and errors are the same as for `aiozarr.driver.TensorView.write`."""
        if not is_large_cast(values, self.dtype):
            # Cast in this thread, because the cast may run user code, which may call this package again.
            values = convert_values(values, self.dtype)
        wait(lambda callback: self._async.write(values, callback), progress)

    # A lambda, because the name is not defined yet while the class body runs.
    resize = blocking_method(driver.TensorView.resize, lambda view: TensorView(view))  # noqa: PLW0108
    resolve = blocking_method(driver.TensorView.resolve, lambda view: TensorView(view))  # noqa: PLW0108
    close = blocking_method(driver.TensorView.aclose, unchanged)

    def __enter__(self) -> TensorView:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> AnyArray:
        if copy is False:
            raise ValueError("a copy cannot be avoided, because the values must be read first")
        values = self.read()
        return values if dtype is None else values.astype(dtype, copy=False)

    def __repr__(self) -> str:
        return repr(self._async).replace("<aiozarr.driver.TensorView", "<aiozarr.sync.TensorView", 1)

    def _wrapped(self, operation: ByDimension[driver.TensorView]) -> ByDimension[TensorView]:
        return ByDimension(lambda arguments: TensorView(operation[arguments]))
