"""The buckets of the Google Cloud Storage fake: objects with generations, their conditions and listings."""

from __future__ import annotations

import base64
import hashlib
import itertools
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import google_crc32c


@dataclass(frozen=True, slots=True)
class Blob:
    """One generation of an object.

    Attributes:
        name: its key in the bucket.
        data: the bytes as they are stored.
        generation: counts the writes to the server; of a later write it is larger.
        crc32c, md5: in base64, as headers and documents carry them. A composite object has no MD5.
        content_type, content_encoding: as the writer gave them.
        metageneration: counts the changes of the metadata.
        metadata: the writer's own.
        updated: seconds since 1970.
    """

    name: str
    data: bytes
    generation: int
    crc32c: str
    md5: str | None
    content_type: str = "application/octet-stream"
    content_encoding: str | None = None
    metageneration: int = 1
    metadata: Mapping[str, str] = field(default_factory=dict)
    updated: float = 0.0

    @property
    def etag(self) -> str:
        """The ETag of the JSON API, without quotes, which changes with the metadata too."""
        return base64.b64encode(f"{self.generation}/{self.metageneration}".encode()).decode("ascii")

    @property
    def xml_etag(self) -> str:
        """The ETag of the XML API, in quotes: the MD5 in hexadecimal digits, where there is one."""
        return f'"{self.etag if self.md5 is None else base64.b64decode(self.md5).hex()}"'


@dataclass(slots=True)
class Bucket:
    """A bucket: objects by key. `base` is the URL of the server, for the addresses in descriptions."""

    name: str
    base: str = ""
    blobs: dict[str, Blob] = field(default_factory=dict)


class Refusal(Exception):
    """Why a request is not done; each API has its own words for it."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True)
class Conditions:
    """The preconditions of one request; None: not asked. Generation 0 stands for no object."""

    generation: int | None = None
    not_generation: int | None = None
    metageneration: int | None = None
    not_metageneration: int | None = None

    def check(self, found: Blob | None, *, reading: bool = False) -> None:
        """Check the conditions against the stored object.

        Raises:
            Refusal: 412, or 304 where a read asks for what has changed and nothing has.
        """
        generation = 0 if found is None else found.generation
        metageneration = 0 if found is None else found.metageneration
        if (self.generation is not None and self.generation != generation) or (
            self.metageneration is not None and self.metageneration != metageneration
        ):
            raise _failed()
        if (self.not_generation is not None and self.not_generation == generation) or (
            self.not_metageneration is not None and self.not_metageneration == metageneration
        ):
            raise Refusal(304, "NotModified", "Not Modified") if reading else _failed()


def _failed() -> Refusal:
    return Refusal(412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold.")


@dataclass(frozen=True, slots=True)
class Listing:
    """One page of a listing: objects and, with a delimiter, common prefixes; `next` is where the next page begins."""

    blobs: list[Blob]
    prefixes: list[str]
    next: str | None


class Holdings:
    """All buckets of one server. Generations grow strictly, across all of them."""

    def __init__(self) -> None:
        self.base = ""  # the URL of the server
        self.buckets: dict[str, Bucket] = {}
        # Real ones are microseconds since 1970: larger than what a float or a 32-bit number holds.
        self._generations = itertools.count(int(time.time() * 1e6))

    def create(self, name: str) -> None:
        """Create a bucket if it does not exist."""
        self.buckets.setdefault(name, Bucket(name))

    def bucket(self, name: str) -> Bucket:
        """Return a bucket.

        Raises:
            Refusal: there is none of this name.
        """
        found = self.buckets.get(name)
        if found is None:
            raise Refusal(404, "NoSuchBucket", "The specified bucket does not exist.")
        found.base = self.base
        return found

    def make(
        self,
        name: str,
        data: bytes,
        *,
        content_type: str | None = None,
        content_encoding: str | None = None,
        metadata: Mapping[str, str] | None = None,
        composite: bool = False,
    ) -> Blob:
        """Return a new generation, which is stored nowhere yet.

        Raises:
            Refusal: the name is none that an object may have.
        """
        size = len(name.encode())
        if not 1 <= size <= 1024 or name in (".", "..") or "\r" in name or "\n" in name:
            raise Refusal(400, "InvalidObjectName", "The specified object name is not valid.")
        return Blob(
            name=name,
            data=data,
            generation=next(self._generations),
            crc32c=crc32c_of(data),
            md5=None if composite else md5_of(data),
            content_type=content_type or "application/octet-stream",
            content_encoding=content_encoding or None,
            metadata=dict(metadata or {}),
            updated=time.time(),
        )


Effect = Callable[[], None]


def storing(bucket: Bucket, blob: Blob) -> Effect:
    """Return the change that stores `blob`."""

    def store() -> None:
        bucket.blobs[blob.name] = blob

    return store


def removing(bucket: Bucket, name: str) -> Effect:
    """Return the change that removes an object."""

    def remove() -> None:
        bucket.blobs.pop(name, None)

    return remove


def crc32c_of(data: bytes) -> str:
    """Return the CRC32C, big-endian, in base64."""
    return base64.b64encode(google_crc32c.value(data).to_bytes(4, "big")).decode("ascii")


def md5_of(data: bytes) -> str:
    """Return the MD5 in base64."""
    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode("ascii")


def check_hashes(blob: Blob, claimed: Mapping[str, str]) -> None:
    """Check the hashes that a writer claims (`crc32c`, `md5`, in base64) against the received bytes.

    Raises:
        Refusal: one is not.
    """
    for name, found in (("crc32c", blob.crc32c), ("md5", blob.md5 or md5_of(blob.data))):
        given = claimed.get(name)
        if given is not None and given != found:
            raise Refusal(
                400, "BadDigest", f'Provided {name.upper()} hash "{given}" doesn\'t match calculated "{found}".'
            )


def parse_hashes(header: str | None) -> dict[str, str]:
    """Return the claims of an `x-goog-hash` header by the name of the hash."""
    parts = (part.strip().partition("=") for part in (header or "").split(","))
    return {name: value for name, _, value in parts if name}


def list_page(
    bucket: Bucket,
    *,
    prefix: str = "",
    delimiter: str = "",
    start: str = "",
    end: str = "",
    after: str = "",
    limit: int = 1000,
    trailing: bool = False,
) -> Listing:
    """Return one page, in order of the keys' bytes.

    Args:
        bucket: what is listed.
        prefix: how keys begin.
        delimiter: keys that have it behind the prefix are rolled up to what ends with its first occurrence.
        start: keys at or after it.
        end: keys before it; `""`: all.
        after: what the page before ended with: an object's key, or a common prefix.
        limit: objects and prefixes together.
        trailing: list keys that end with the delimiter as objects too.
    """
    blobs: list[Blob] = []
    prefixes: list[str] = []
    last, group = after, ""
    for name in _names(bucket, prefix, start, end, after):
        if group and name.startswith(group):
            continue
        if delimiter and after.endswith(delimiter) and len(after) > len(prefix) and name.startswith(after):
            continue  # rolled up on the page before
        if len(blobs) + len(prefixes) >= limit:
            return Listing(blobs, prefixes, last)
        rolled = _rolled(name, prefix, delimiter)
        if rolled is None:
            blobs.append(bucket.blobs[name])
        else:
            prefixes.append(rolled)
            group = rolled
            if trailing and rolled == name:
                blobs.append(bucket.blobs[name])
        last = name if rolled is None else rolled
    return Listing(blobs, prefixes, None)


def _names(bucket: Bucket, prefix: str, start: str, end: str, after: str) -> Iterator[str]:
    names = sorted(bucket.blobs, key=str.encode)
    first = bisect_left(names, max(start, prefix, after, key=str.encode).encode(), key=str.encode)
    for name in itertools.islice(names, first, None):
        if not name.startswith(prefix) or (end and name.encode() >= end.encode()):
            if name.encode() > prefix.encode():
                return
            continue
        if name != after:
            yield name


def _rolled(name: str, prefix: str, delimiter: str) -> str | None:
    if not delimiter:
        return None
    at = name.find(delimiter, len(prefix))
    return None if at < 0 else name[: at + len(delimiter)]
