"""The conformance suite of the store contract: subclass `StoreConformance` in a test module, and pytest runs it.

    class TestMyStore(StoreConformance):
        async def make_store(self) -> Store:
            return MyStore(...)         # new and empty on each call

What a store's `supports` does not claim is expected to raise `UnsupportedOperationError`; what it claims is tested. A
store that cannot be written to also overrides `put`, which brings in values behind the store's back. It needs pytest,
and no plugin for asyncio: each test runs an event loop of its own.
"""

from aiozarr.testing.conformance.needed import pytest

pytest.register_assert_rewrite(
    *(f"{__name__}.{name}" for name in ("reading", "writing", "conditions", "listing", "life"))
)

from aiozarr.testing.conformance.suite import StoreConformance  # noqa: E402  # asserts are rewritten before the import

__all__ = ["StoreConformance"]
