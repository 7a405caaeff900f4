"""The conformance suite of the store contract: subclass `StoreConformance` in a test module, and pytest runs it.

    class TestMyStore(StoreConformance):
        async def make_store(self) -> Store:
            return MyStore(...)         # new and empty on each call

The suite tests each operation that the store's `supports` claims. An operation that it does not claim must raise
`UnsupportedOperationError`. A store that cannot be written to also overrides `put`, which stores values past the
store itself. The suite needs pytest and no plugin for asyncio: each test runs an event loop of its own.
"""

try:
    import pytest
except ImportError as error:
    raise ImportError("the conformance suite needs the package pytest: pip install pytest") from error

pytest.register_assert_rewrite(*(f"{__name__}.{name}" for name in ("reading", "writing", "lifecycle")))

# pytest rewrites the asserts of a module before its first import.
from aiozarr.testing.conformance.lifecycle import StoreConformance  # noqa: E402  # see above

__all__ = ["StoreConformance"]
