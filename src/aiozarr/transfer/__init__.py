"""Bulk work between stores: bytes as stored, without decoding."""

from aiozarr.transfer.carry import Verify
from aiozarr.transfer.copy import copy
from aiozarr.transfer.job import OnError
from aiozarr.transfer.report import CopyReport

__all__ = ["CopyReport", "OnError", "Verify", "copy"]
