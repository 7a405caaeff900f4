"""The checks of stored objects."""

from typing import Literal, TypeAlias

Verify: TypeAlias = Literal["size", "checksum"] | None
"""How a stored object is checked, as of `aiozarr.copy`."""
