"""Memory for large arrays that are about to be filled: pages there before they are needed, and given back aside."""

from aiozarr.memory.pages import HUGE_PAGE, LARGE, PIECE, Presence, empty, owner_of

__all__ = ["HUGE_PAGE", "LARGE", "PIECE", "Presence", "empty", "owner_of"]
