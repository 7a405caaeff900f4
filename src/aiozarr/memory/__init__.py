"""Memory of large arrays: prefaulted before it is written, and returned to the system by a separate thread."""

from aiozarr.memory.pages import HUGE_PAGE, LARGE, PIECE_BYTES, PagePrefaulter, empty, empty_bytes, owner_of

__all__ = ["HUGE_PAGE", "LARGE", "PIECE_BYTES", "PagePrefaulter", "empty", "empty_bytes", "owner_of"]
