"""Which locations a document of references may name: one from elsewhere must not read this machine or its network."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from aiozarr.errors import PermissionDeniedError
from aiozarr.stores.blocking import in_thread

_LOCAL = ("file", "local")
_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class ReferenceGuard:
    """The locations that a document of references may name.

    These are its own origin (server, bucket, or the folder of a local document), and what the user names. A document
    that is not on this machine never names local files.

    Attributes:
        document: the URL or path of the document; None for a table in memory, which has no origin.
        named: URL prefixes that the user allows (the storage option `resolve`).
        protocol: the protocol that the user has chosen for all targets (the storage option `remote_protocol`).
    """

    document: str | None
    named: tuple[str, ...] = ()
    protocol: str | None = None

    @classmethod
    def of(cls, links: Sequence[str], options: Mapping[str, Any]) -> ReferenceGuard:
        """Return the guard of a chain whose first link is `reference`, with the options of that link."""
        document = "::".join(links[1:]) if len(links) > 1 else options.get("fo")
        resolve = options.get("resolve") or {}
        if not isinstance(resolve, Mapping):
            raise TypeError(
                f"resolve maps URL prefixes to storage options, as in {{'s3://bucket/': {{}}}}, not {resolve!r}"
            )
        protocol = None if "fs" in options else options.get("remote_protocol")  # fsspec uses only one of them
        return cls(document if isinstance(document, str) else None, tuple(resolve), protocol)

    async def check(self, references: Any, path: str) -> None:
        """Check the target of one reference.

        Raises:
            PermissionDeniedError: the document may not name it.
        """
        if isinstance(references, dict):
            target = _target_of(references, path)
        else:  # one record of a table on disk or in a bucket, which is read at its first use
            target = await in_thread(lambda: _target_of(references, path))
        if target is not None and not self.allows(target):
            raise PermissionDeniedError(
                f"the references name {shown_location(target)!r}, which is not in the origin of their document; "
                f"the storage option resolve={{{_prefix_of(target)!r}: {{}}}} allows it"
            )

    def allows(self, target: str) -> bool:
        """Return whether the document may name this URL or path."""
        scheme, mark, rest = target.partition("://")
        scheme = scheme.lower() if mark else (self.protocol or "file")
        decoded = unquote(rest)
        is_ambiguous = "::" in target or "\\" in decoded or any(each < " " or each == "\x7f" for each in decoded)
        if is_ambiguous or "@" in (rest.partition("/")[0] if mark else ""):
            return False
        if scheme in _LOCAL:
            return self._allows_file(target)
        if any(part.partition(";")[0] in (".", "..") for part in decoded.split("/")):
            return False
        if scheme == self.protocol or any(_begins_with(target, prefix) for prefix in self.named):
            return True
        return self.document is not None and not _is_local(self.document) and _has_origin(target, self.document)

    def _allows_file(self, target: str) -> bool:
        from fsspec.implementations.local import LocalFileSystem

        if self.document is not None and not _is_local(self.document):
            return False
        if self.protocol in _LOCAL:
            return True
        # As fsspec reads them: `file:/x` and `~/x` are absolute, too.
        as_path = LocalFileSystem._strip_protocol
        folders = [as_path(prefix) for prefix in self.named if _is_local(prefix)]
        if self.document is not None:
            folders.append(os.path.dirname(as_path(self.document.rpartition("::")[2])))
        real = os.path.realpath(as_path(target))
        return any(real.startswith(os.path.join(os.path.realpath(folder), "")) for folder in folders)


def _target_of(references: Mapping[str, Any], path: str) -> str | None:
    """Return the URL of a reference; None for an inlined value, and for a key without a reference."""
    try:
        found = references[path]
    except (KeyError, ValueError):  # a table on disk refuses keys that are not those of an array
        return None
    if callable(found):
        found = found()
    return str(found[0]) if isinstance(found, list | tuple) and found and found[0] else None


def shown_location(target: str) -> str:
    """Return a URL or path without what may be a secret: its query, and the user before the host."""
    return target.partition("?")[0].partition("#")[0].rpartition("@")[2]  # an invalid URL, too


def _is_local(location: str) -> bool:
    links = [link for link in location.split("::") if "://" in link]
    return all(link.partition("://")[0] in _LOCAL for link in links)


def _has_origin(target: str, location: str) -> bool:
    try:
        return _origin(target) == _origin(location)
    except ValueError:  # no valid URL
        return False


def _origin(url: str) -> tuple[str, str | None, int | None]:
    found = urlsplit(url.rpartition("::")[2])
    scheme = found.scheme.lower()
    return scheme, found.hostname, found.port or _DEFAULT_PORTS.get(scheme)


def _begins_with(target: str, prefix: str) -> bool:
    end = urlsplit(prefix).path
    return _has_origin(target, prefix) and urlsplit(target).path.startswith(end if end.endswith("/") else end + "/")


def _prefix_of(target: str) -> str:
    scheme, mark, rest = target.partition("://")
    server = rest.partition("/")[0].rpartition("@")[2]
    return f"{scheme}{mark}{server}/" if server else f"{os.path.dirname(target)}/"
