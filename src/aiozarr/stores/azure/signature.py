"""Shared access signatures of an account key: one for all blobs of a container, for a limited time.

"Create a service SAS" in Azure's documentation. obstore signs too, each blob for itself, and wrongly where a name needs
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
KEEP_SECONDS = 900
"""A signature is used for this long: well before it ends, whatever the clocks say."""

NEW_SECONDS = 10
"""A signature that is refused so soon was not good from the beginning."""


def sign_container(account: str, key: str, container: str, permissions: str, expires: float) -> str:
    """Return the query that allows `permissions` on all blobs of `container` until `expires` (seconds since 1970).

    Args:
        account: the account's name, that of its primary region.
        key: the account's key, in base64.
        container: the container's name.
        permissions: `r` to read, `d` to delete, `l` to list; several in the order `racwdxltmeop`.
        expires: when it ends.
    """
    expiry = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(expires))
    # Permissions, start, expiry, resource, identifier, addresses, protocol, version, kind of resource, snapshot,
    # encryption scope, and five headers of the answer.
    fields = [permissions, "", expiry, f"/blob/{account}/{container}", "", "", "", VERSION, "c", *[""] * 7]
    signature = b64encode(digest(b64decode(key), "\n".join(fields).encode(), sha256)).decode("ascii")
    return urlencode({"sv": VERSION, "se": expiry, "sr": "c", "sp": permissions, "sig": signature})


class Signatures:
    """The signatures of one container, each made anew every quarter of an hour."""

    def __init__(self, account: str, key: str, container: str) -> None:
        self._account = account.removesuffix("-secondary")
        self._key = key
        self._container = container
        self._kept: dict[str, tuple[float, str]] = {}

    def query(self, permissions: str) -> str:
        """Return the query that allows `permissions` for a while."""
        kept = self._kept.get(permissions)
        now = time.monotonic()
        if kept is None or kept[0] + KEEP_SECONDS < now:
            expires = time.time() + VALID_SECONDS
            query = sign_container(self._account, self._key, self._container, permissions, expires)
            kept = self._kept[permissions] = (now, query)
        return kept[1]

    def renew(self, refused: str) -> bool:
        """Forget the signature `refused`; False where it was new, so that another would be refused as well."""
        for permissions, (made, query) in list(self._kept.items()):
            if query == refused:
                if time.monotonic() - made < NEW_SECONDS:
                    return False
                del self._kept[permissions]
        return True
