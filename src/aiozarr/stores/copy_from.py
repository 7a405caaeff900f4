"""Stores whose server copies objects itself, so that no byte travels."""

from __future__ import annotations

from abc import abstractmethod

from aiozarr.model import Version
from aiozarr.stores.contract import Store


class CopyFromStore(Store):
    """A store that may have its server copy an object of another store."""

    @abstractmethod
    def can_copy_from(self, source: Store) -> bool:
        """Return whether the server of this store may copy objects of `source`: it is its server, too."""

    @abstractmethod
    async def copy_from(
        self, source: Store, source_key: str, key: str, *, size: int, if_match: Version | None = None
    ) -> Version | None:
        """Store the object `source_key` of `source` under `key`, whole or not at all.

        Args:
            source: a store for which `can_copy_from` is true.
            source_key: the key there.
            key: the key here.
            size: the size of the object.
            if_match: the version that the object must have.

        Returns: the version, or None if the server reports none.

        Raises:
            ChangedError: the object has another version, or is gone.
            UnsupportedOperationError: this server does not copy such objects.
            StoreError: it could not be copied.
        """
