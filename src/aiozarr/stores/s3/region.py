"""The region in a response of S3: in a header, in the error document, or in the host of a redirect."""

from __future__ import annotations

import re

from aiozarr.http1 import Headers

REDIRECTS = frozenset({301, 302, 307, 308})

_REGION = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
_IN_DOCUMENT = re.compile(r"<Region>([^<]{1,40})</Region>")
_IN_HOST = re.compile(r"(?:^|[./])s3[.-]([a-z]{2}(?:-[a-z]+)+-\d)\.amazonaws\.com")
_WRONG = re.compile(
    r"<Code>(PermanentRedirect|TemporaryRedirect|AuthorizationHeaderMalformed|IllegalLocationConstraint)"
)


def region_in(headers: Headers, document: str) -> str | None:
    """Return the region that a response names, or None."""
    region = headers.get(b"x-amz-bucket-region", b"").decode("latin-1")
    if not region:
        found = _IN_DOCUMENT.search(document)
        region = "" if found is None else found[1]
    if not region:
        location = headers.get(b"location", b"").decode("latin-1")
        found = _IN_HOST.search(location) or _IN_HOST.search(document)
        region = "" if found is None else found[1]
    return region if _REGION.fullmatch(region) else None


def is_elsewhere(status: int | None, document: str) -> bool:
    """Return whether a response says that the bucket is in another region, or the signature is for another one."""
    return status in REDIRECTS or (status == 400 and _WRONG.search(document) is not None)
