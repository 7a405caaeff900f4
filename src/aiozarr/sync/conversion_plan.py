"""The blocking plan of a conversion."""

from __future__ import annotations

from aiozarr import conversion
from aiozarr.sync.wait import wait


class ConversionPlan(conversion.ConversionPlan):
    """The stages of a conversion, with the attributes of `aiozarr.ConversionPlan`. `prepare` and `finish` block."""

    def prepare(self, *, overwrite: bool = False) -> None:  # type: ignore[override]  # blocks, as all of aiozarr.sync
        """Prepare the destination; arguments and errors are the same as for `aiozarr.ConversionPlan.prepare`."""
        wait(lambda _: conversion.ConversionPlan.prepare(self, overwrite=overwrite))

    def finish(self) -> None:  # type: ignore[override]  # blocks, as all of aiozarr.sync
        """Store the documents of the result after its last task; see `aiozarr.ConversionPlan.finish`."""
        wait(lambda _: conversion.ConversionPlan.finish(self))
