"""Shared access signatures by an account key, each for all blobs of a container and a limited time.

"Create a service SAS" in Azure's documentation. obstore signs single blobs, and incorrectly if a name needs
percent-encoding.
"""

from __future__ import annotations

import time
from base64 import b64decode, b64encode
from hashlib import sha256
from hmac import digest
from urllib.parse import urlencode

VERSION = "2021-12-02"

VALID_SECONDS = 3600
REUSE_SECONDS = 900
"""A signature is used for this long. The clocks may differ by the rest of its validity."""

MIN_AGE_SECONDS = 10
"""A signature that is refused when it is younger was never valid, and a new one would not be."""


def sign_container(account: str, key: str, container: str, permissions: str, expires: float) -> str:
    """Return the query that allows `permissions` on all blobs of `container` until `expires` (seconds since 1970).

    Args:
        account: the account's name, that of its primary region.
        key: the account's key, in base64.
        container: the container's name.
        permissions: `r` to read, `d` to delete, `l` to list; several in the order `racwdxltmeop`.
        expires: the time of its expiry.
    """
    expiry = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(expires))
    # Permissions, start, expiry, resource, identifier, addresses, protocol, version, kind of resource, snapshot,
    # encryption scope, and five headers of the answer.
    fields = [permissions, "", expiry, f"/blob/{account}/{container}", "", "", "", VERSION, "c", *[""] * 7]
    signature = b64encode(digest(b64decode(key), "\n".join(fields).encode(), sha256)).decode("ascii")
    return urlencode({"sv": VERSION, "se": expiry, "sr": "c", "sp": permissions, "sig": signature})


class ContainerSignatures:
    """The signatures of one container, each renewed every quarter of an hour."""

    def __init__(self, account: str, key: str, container: str) -> None:
        self._account = account.removesuffix("-secondary")
        self._key = key
        self._container = container
        self._signatures: dict[str, tuple[float, str]] = {}

    def query(self, permissions: str) -> str:
        """Return the query that allows `permissions` for a while."""
        cached = self._signatures.get(permissions)
        now = time.monotonic()
        if cached is None or cached[0] + REUSE_SECONDS < now:
            expires = time.time() + VALID_SECONDS
            query = sign_container(self._account, self._key, self._container, permissions, expires)
            cached = self._signatures[permissions] = (now, query)
        return cached[1]

    def renew(self, refused: str) -> bool:
        """Drop the signature `refused`; return False if it was new: another one would be refused as well."""
        for permissions, (made, query) in list(self._signatures.items()):
            if query == refused:
                if time.monotonic() - made < MIN_AGE_SECONDS:
                    return False
                del self._signatures[permissions]
        return True
