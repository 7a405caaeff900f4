"""A name resolution that needs no network."""

from __future__ import annotations

import asyncio
import socket


class FakeResolver:
    """Resolves every name to the given addresses, and counts the resolutions."""

    def __init__(self, *addresses: str) -> None:
        self.addresses: tuple[str, ...] = addresses
        self.asked = 0
        self.cancelled = 0

    async def resolve(self, host: str, port: int, **_: object) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        self.asked += 1
        try:
            await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if not self.addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(0, 0, 0, "", (address, port)) for address in self.addresses]
