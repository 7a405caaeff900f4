"""Listings that go in a circle: noticed by what comes back, however long the circle is, with one name kept."""

from __future__ import annotations

from collections.abc import Collection

from aiozarr.errors import StoreError


class Circle:
    """Looks for a page of a listing that was there before (Brent's algorithm)."""

    def __init__(self) -> None:
        self._marker: str | None = None
        self._pages = 0
        self._until = 1

    def check(self, names: Collection[str], last: str) -> None:
        """Note a page.

        Args:
            names: what no other page has: its keys, or the token that leads to the next one.
            last: one of them.

        Raises:
            StoreError: the page was there before.
        """
        if self._marker in names:
            raise StoreError("the server's listing goes in a circle")
        self._pages += 1
        if self._pages == self._until:
            self._marker, self._until = last, 2 * self._until
