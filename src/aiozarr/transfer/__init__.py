"""Copies between stores: objects as stored, without decoding."""

from aiozarr.transfer.copy import copy
from aiozarr.transfer.copy_object import Verify
from aiozarr.transfer.copy_operation import OnError
from aiozarr.transfer.report import CopyReport

__all__ = ["CopyReport", "OnError", "Verify", "copy"]
