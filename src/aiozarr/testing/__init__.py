"""Tools for tests of stores and of code that uses stores: a conformance suite, a fake store, faults and virtual time.

Import its modules directly. `conformance` needs pytest; the other modules need no further package.
"""

from aiozarr.stores.trace_store import LatencyStore

__all__ = ["LatencyStore"]
