"""Azure's emulator on this machine, started as the tests start it: azurite, an npm package."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path

TESTS = Path(__file__).parents[1] / "tests" / "support"


@contextmanager
def local_azurite(container: str) -> Iterator[dict[str, str]]:
    """Start the emulator with an empty container, yield its storage options, and stop it at the end.

    Raises:
        SystemExit: it is not installed; the message says what to install.
    """
    if str(TESTS) not in sys.path:
        sys.path.append(str(TESTS))
    servers = import_module("servers")
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        try:
            server = stack.enter_context(servers.azurite(Path(folder)))
        except servers.NotInstalled:
            raise SystemExit(
                "azurite, Azure's emulator, is not installed. With npm (Debian: apt-get install npm):\n"
                "  npm install --prefix .servers --ignore-scripts azurite@3.35.0\n"
                "or put azurite-blob on PATH."
            ) from None
        server.create_container(container)
        options: dict[str, str] = server.storage_options
        yield options
