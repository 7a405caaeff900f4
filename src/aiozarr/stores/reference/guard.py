"""Restricts the locations that a document of references may name, to protect this machine and its network."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from aiozarr.errors import PermissionDeniedError
from aiozarr.model import is_unicode

_LOCAL = ("file", "local")
_DEFAULT_PORTS = {"http": 80, "https": 443}
WEB = _DEFAULT_PORTS.keys()
"""The schemes of URLs whose hosts have no case, and whose paths are percent-encoded."""


@dataclass(frozen=True)
class ReferenceGuard:
    """The locations that a document of references may name.

    These are its own origin (server, bucket, or the folder of a local document), and locations that the user names. A
    document that is not on this machine never names local files.

    Attributes:
        document: the URL or path of the document; None for a table in memory, which has no origin.
        named: URL prefixes that the user allows (the storage option `resolve`).
        protocol: the protocol of all targets that the user has chosen (the storage option `remote_protocol`).
    """

    document: str | None
    named: tuple[str, ...] = ()
    protocol: str | None = None

    def check(self, target: str) -> None:
        """Check the target of a reference.

        Raises:
            PermissionDeniedError: the document may not name it.
        """
        if not self.allows(target):
            where, advice = "", "; only that origin and the locations that the storage option 'resolve' names are read"
            if is_local(target, self.protocol) and "://" not in target and not os.path.isabs(target):
                where, advice = "a path relative to the working directory, ", ""
                if self.document is not None and _is_local(self.document):
                    advice = "; it is found if the working directory is the folder of the document"
            # The document may be hostile, so nothing here says how its target could be allowed.
            raise PermissionDeniedError(
                f"the references name {shown_location(target)!r}, {where}which is outside the origin of their "
                f"document{advice}"
            )

    def allows(self, target: str) -> bool:
        """Return whether the document may name this URL or path."""
        scheme, mark, rest = target.partition("://")
        scheme = scheme.lower() if mark else (self.protocol or "file")
        decoded = unquote(rest if mark else target)
        if "::" in target or "\0" in decoded or not is_unicode(target):
            return False
        if "@" in (rest.partition("/")[0] if mark else ""):
            return False
        if scheme in _LOCAL and not mark:  # the name of a file may have any other character
            return self._allows_file(target)
        if "\\" in decoded or any(each < " " or each == "\x7f" for each in decoded):
            return False
        if scheme in _LOCAL:
            return self._allows_file(target)
        if any(part.partition(";")[0] in (".", "..") for part in decoded.split("/")):
            return False
        if scheme == self.protocol or any(_begins_with(target, prefix) for prefix in self.named):
            return True
        return self.document is not None and not _is_local(self.document) and _has_origin(target, self.document)

    def _allows_file(self, target: str) -> bool:
        if self.document is not None and not _is_local(self.document):
            return False
        if self.protocol in _LOCAL:
            return True
        folders = [prefix for prefix in self.named if _is_local(prefix)]
        if self.document is not None:
            folders.append(os.path.dirname(local_path(self.document.rpartition("::")[2])))
        return bool(longest_prefix(target, folders))


def local_path(location: str) -> str:
    """Return the absolute path of a local file, from a path or a URL. `file:/x` is a URL for fsspec."""
    scheme, colon, rest = location.partition(":")
    if colon and scheme.lower() in _LOCAL:
        location = rest.removeprefix("//")
        if "%" in location and not os.path.lexists(location):
            location = unquote(location)  # fsspec has file URLs that are not encoded
    return os.path.abspath(os.path.expanduser(location))


def is_local(target: str, protocol: str | None) -> bool:
    """Return whether a target is a file of this machine, if URLs without a scheme are of `protocol`."""
    scheme, mark, _ = target.partition("://")
    return (scheme.lower() if mark else (protocol or "file")) in _LOCAL


def longest_prefix(target: str, prefixes: Iterable[str]) -> str:
    """Return the longest of the prefixes that contains `target`, or `""`."""
    return max([prefix for prefix in prefixes if _is_below(target, prefix)], key=len, default="")


def _is_below(target: str, prefix: str) -> bool:
    if not _is_local(prefix):
        return _begins_with(target, prefix)
    real, folder = os.path.realpath(local_path(target)), os.path.realpath(local_path(prefix))
    return _is_local(target) and real.startswith(os.path.join(folder, ""))


def shown_location(target: str) -> str:
    """Return a URL or path without its query, and the user before the host, which may be secrets."""
    return target.partition("?")[0].partition("#")[0].rpartition("@")[2]  # an invalid URL, too


def _is_local(location: str) -> bool:
    links = [link for link in location.split("::") if "://" in link]
    return all(link.partition("://")[0] in _LOCAL for link in links)


def split_location(url: str) -> tuple[str, str, str]:
    """Return the scheme in lower case, the server or bucket, and the rest of a URL, which begins with a slash.

    What is allowed and what is opened are both split here, so that they cannot differ.

    Raises:
        ValueError: it is not a valid URL.
    """
    scheme, _, rest = url.partition("://")
    scheme = scheme.lower()
    if scheme in WEB:
        found = urlsplit(f"{scheme}://{rest}")
        return scheme, found.netloc, f"{found.path}?{found.query}" if found.query else found.path
    server, slash, key = rest.partition("/")
    return scheme, server, slash + key


def _has_origin(target: str, location: str) -> bool:
    try:
        return _origin(target) == _origin(location)
    except ValueError:  # no valid URL
        return False


def _origin(url: str) -> tuple[str, str | None, int | None]:
    scheme, server, _ = split_location(url.rpartition("::")[2])
    if scheme not in WEB:
        return scheme, server, None  # `MyData` and `mydata` are two buckets
    found = urlsplit(f"//{server}")
    return scheme, found.hostname, found.port or _DEFAULT_PORTS[scheme]


def _begins_with(target: str, prefix: str) -> bool:
    if not _has_origin(target, prefix):
        return False
    end = split_location(prefix)[2]
    return split_location(target)[2].startswith(end if end.endswith("/") else end + "/")
