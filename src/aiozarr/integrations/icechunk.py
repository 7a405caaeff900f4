"""icechunk sessions as stores: `from_session`."""

from aiozarr.stores.reference.icechunk_table import from_session

__all__ = ["from_session"]
