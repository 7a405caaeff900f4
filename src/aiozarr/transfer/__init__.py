"""Copies between stores: objects as stored, without decoding."""

from aiozarr.transfer.copy import copy
from aiozarr.transfer.copy_rules import OnError, Verify
from aiozarr.transfer.report import CopyReport

__all__ = ["CopyReport", "OnError", "Verify", "copy"]
