"""The suite: all statements of the store contract in one class."""

from __future__ import annotations

from aiozarr.testing.conformance.conditions import Conditions
from aiozarr.testing.conformance.lifecycle import Lifecycle
from aiozarr.testing.conformance.listing import Listing
from aiozarr.testing.conformance.reading import Reading
from aiozarr.testing.conformance.writing import Writing


class StoreConformance(Reading, Writing, Conditions, Listing, Lifecycle):
    """Every statement of the store contract as a test; a subclass overrides attributes of `conformance.base.Base`."""
