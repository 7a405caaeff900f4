"""azurite, Microsoft's own emulator of Azure Blob Storage, with its values in memory."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from tests.support.servers.process import announced_port, find, running, said_version

ACCOUNT = "devstoreaccount1"
# The key of every emulator, public in its documentation.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_API_VERSION = "2021-12-02"


@dataclass(frozen=True)
class Azurite:
    """A running azurite.

    Attributes:
        name, version: which server it is.
        endpoint_url: where its one account is.
    """

    version: str
    endpoint_url: str
    name: str = "azurite"

    @property
    def storage_options(self) -> dict[str, Any]:
        """The storage options that reach it."""
        return {"endpoint_url": self.endpoint_url, "account_name": ACCOUNT, "account_key": KEY}

    def create_container(self, name: str) -> None:
        """Create a container, by a request signed with the account's key."""
        headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": _API_VERSION}
        lines = ["PUT", *[""] * 11, *(f"{key}:{headers[key]}" for key in sorted(headers))]
        # The emulator has the account in the path, and Azure's rule puts it in front of the path once more.
        lines += [f"/{ACCOUNT}/{ACCOUNT}/{name}", "restype:container"]
        signature = hmac.digest(base64.b64decode(KEY), "\n".join(lines).encode(), hashlib.sha256)
        headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(signature).decode()}"
        headers["Content-Length"] = "0"
        url = f"{self.endpoint_url}/{name}?restype=container"
        with urlopen(Request(url, data=None, method="PUT", headers=headers), timeout=30):
            pass


@contextmanager
def azurite(directory: Path) -> Iterator[Azurite]:
    """Start azurite, and stop it at the end.

    Raises:
        NotInstalled: there is no azurite.
    """
    log = directory / "azurite.log"
    command = [find("azurite-blob"), "--silent", "--skipApiVersionCheck", "--disableTelemetry"]
    command += ["--blobHost", "127.0.0.1", "--blobPort", "0", "--inMemoryPersistence"]
    with running(command, log) as process:
        port = announced_port(process, log, r"successfully listens on http://127\.0\.0\.1:(\d+)")
        yield Azurite(said_version("azurite-blob", "--version"), f"http://127.0.0.1:{port}/{ACCOUNT}")
