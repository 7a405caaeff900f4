"""Copies between stores: objects as stored, without decoding."""

from aiozarr.engine.copy import Verify
from aiozarr.transfer.clean import Leftover, clean
from aiozarr.transfer.copy import copy
from aiozarr.transfer.copy_rules import OnError
from aiozarr.transfer.report import CopyReport

__all__ = ["CopyReport", "Leftover", "OnError", "Verify", "clean", "copy"]
