"""Conversions: arrays and trees in other formats, chunks, shards, codecs and data types."""

from aiozarr.conversion.conversion import convert, plan_conversion
from aiozarr.conversion.conversion_journal import ConversionReport
from aiozarr.conversion.conversion_plan import ConversionPlan
from aiozarr.conversion.conversion_task import ConversionStage, ConversionTask

__all__ = [
    "ConversionPlan",
    "ConversionReport",
    "ConversionStage",
    "ConversionTask",
    "convert",
    "plan_conversion",
]
