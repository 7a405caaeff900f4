"""The records that functions and methods of aiozarr return: for annotations, and for `isinstance`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiozarr.common.lazy_names import lazy_names

if TYPE_CHECKING:
    from aiozarr.conversion import ConversionReport
    from aiozarr.hierarchy import ArrayInfo, BadObject, Finding, GroupInfo, ValidateReport, VerifyReport
    from aiozarr.schedule.events import Totals
    from aiozarr.transfer.clean import Leftover
    from aiozarr.transfer.report import CopyReport
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "aiozarr.conversion": "ConversionReport",
            "aiozarr.hierarchy": "ArrayInfo BadObject Finding GroupInfo ValidateReport VerifyReport",
            "aiozarr.schedule.events": "Totals",
            "aiozarr.transfer": "CopyReport Leftover",
        },
    )

__all__ = [
    "ArrayInfo",
    "BadObject",
    "ConversionReport",
    "CopyReport",
    "Finding",
    "GroupInfo",
    "Leftover",
    "Totals",
    "ValidateReport",
    "VerifyReport",
]
