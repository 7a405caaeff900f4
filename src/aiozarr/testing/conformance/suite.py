"""The suite that stores subclass: all chapters of the store contract in one class."""

from aiozarr.testing.conformance.conditions import Conditions
from aiozarr.testing.conformance.life import Life
from aiozarr.testing.conformance.listing import Listing
from aiozarr.testing.conformance.reading import Reading
from aiozarr.testing.conformance.writing import Writing


class StoreConformance(Reading, Writing, Conditions, Listing, Life):
    """Every statement of the store contract as a test; `conformance.base.Base` says what a subclass overrides."""
