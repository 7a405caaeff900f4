"""The suite: all statements of the store contract in one class."""

from __future__ import annotations

from aiozarr.testing.conformance.lifecycle import Lifecycle
from aiozarr.testing.conformance.reading import Listing, Reading
from aiozarr.testing.conformance.writing import Conditions, Writing


class StoreConformance(Reading, Writing, Conditions, Listing, Lifecycle):
    """Every statement of the store contract as a test; a subclass overrides attributes of `conformance.base.Base`."""
