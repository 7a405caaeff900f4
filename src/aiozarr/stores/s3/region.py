"""The region that a server tells: in a header, in an error document, or in the host that it sends to."""

from __future__ import annotations

import re

from aiozarr.stores.lane.head import Headers

REDIRECTS = frozenset({301, 302, 307, 308})

_REGION = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
_IN_DOCUMENT = re.compile(r"<Region>([^<]{1,40})</Region>")
_IN_HOST = re.compile(r"(?:^|[./])s3[.-]([a-z]{2}(?:-[a-z]+)+-\d)\.amazonaws\.com")
_WRONG = re.compile(
    r"<Code>(PermanentRedirect|TemporaryRedirect|AuthorizationHeaderMalformed|IllegalLocationConstraint)"
)


def region_in(headers: Headers, document: str) -> str | None:
    """Return the region that an answer tells; None: it tells none."""
    told = headers.get(b"x-amz-bucket-region", b"").decode("latin-1")
    if not told:
        found = _IN_DOCUMENT.search(document)
        told = "" if found is None else found[1]
    if not told:
        place = headers.get(b"location", b"").decode("latin-1")
        found = _IN_HOST.search(place) or _IN_HOST.search(document)
        told = "" if found is None else found[1]
    return told if _REGION.fullmatch(told) else None


def is_elsewhere(status: int | None, document: str) -> bool:
    """Return whether an answer says that the bucket, or the region of the signature, is another one."""
    return status in REDIRECTS or (status == 400 and _WRONG.search(document) is not None)
