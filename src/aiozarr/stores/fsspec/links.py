"""Whose an option is: which links of a chain of file systems know it, as far as their classes say what they know."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from aiozarr.stores.options.azure import AZURE_TABLE
from aiozarr.stores.options.gcs import GCS_TABLE
from aiozarr.stores.options.keyed import same_protocols
from aiozarr.stores.options.s3 import S3_TABLE
from aiozarr.stores.options.table import Table

TABLES: dict[str, Table] = {
    **dict.fromkeys(("s3", "s3a"), S3_TABLE),
    **dict.fromkeys(("gs", "gcs"), GCS_TABLE),
    **dict.fromkeys(("az", "abfs", "abfss", "adl"), AZURE_TABLE),
}
_NAMES_OF_OURS = {"s3": "s3fs", "gs": "gcsfs"}

# What every file system takes, and some in arguments without a name.
_EVERY = frozenset(
    {"asynchronous", "batch_size", "listings_expiry_time", "loop", "max_paths", "skip_instance_cache"}
    | {"use_listings_cache"}
)
# Whose further arguments end in fsspec's base class, which takes anything and forgets it.
_CLOSED = frozenset(
    f"fsspec.implementations.{name}"
    for name in ("cached", "data", "dirfs", "ftp", "git", "github", "http", "libarchive", "local", "memory")
) | {"fsspec.implementations.reference", "fsspec.implementations.tar", "fsspec.implementations.zip"}
_CLOSED_PACKAGES = frozenset({"gcsfs", "s3fs"})


@dataclass(frozen=True)
class Link:
    """One file system of a chain.

    Attributes:
        protocol: what it goes by, in URLs and among options.
        kind: its class.
    """

    protocol: str
    kind: Any

    @property
    def closed(self) -> bool:
        """Whether what its arguments do not name is a mistake."""
        module = self.kind.__module__
        return module in _CLOSED or module.partition(".")[0] in _CLOSED_PACKAGES

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of its own arguments."""
        found: set[str] = set()
        for kind in self.kind.__mro__:
            if "__init__" in vars(kind) and kind is not object:
                found |= _named(vars(kind)["__init__"])
        if self.kind.__module__ == "fsspec.implementations.http":
            import aiohttp

            found |= _named(aiohttp.ClientSession._request) - {"method", "str_or_url"}
        elif self.kind.__module__.startswith("s3fs"):
            found.add("profile")  # of the session that it makes
        return frozenset(found - {"self"} - _EVERY)

    def knows(self, name: str) -> bool:
        """Return whether `name` is an argument of its own, or ours or obstore's name of one."""
        table = TABLES.get(self.protocol)
        return name in self.names or (table is not None and table.knows(name))

    def check(self, options: Mapping[str, Any]) -> None:
        """See that it takes all of `options`.

        Raises:
            TypeError: it does not.
        """
        unknown = [name for name in options if not self.knows(name) and name not in _EVERY]
        if self.closed and unknown:
            raise _unknown(unknown[0], [self])


def out_of_keys(links: Sequence[Link], options: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return `options` by the protocols of `links`.

    Raises:
        TypeError: an option that no link knows, or no mapping under a protocol.
        ValueError: an option is given twice, with different values.
    """
    given: dict[str, dict[str, Any]] = {link.protocol: {} for link in links}
    loose: dict[str, Any] = {}
    for name, value in options.items():
        link = next((link for link in links if name in _keys_of(link.protocol)), None)
        if link is None:
            loose[name] = value
        elif not isinstance(value, Mapping | None):
            raise TypeError(f"the storage options under {name!r} are a mapping")
        else:
            _add(given[link.protocol], value or {})
    for link in links:
        link.check(given[link.protocol])
    for name, value in loose.items():
        for link in _takers(name, links):
            _add(given[link.protocol], {name: value})
    return given


def needs_target(kind: Any) -> bool:
    """Return whether a file system of the class `kind` lies in a file of another one."""
    parameter = inspect.signature(kind.__init__).parameters.get("fo")
    return parameter is not None and (parameter.default is inspect.Parameter.empty or parameter.default == "")


def _takers(name: str, links: Sequence[Link]) -> list[Link]:
    takers = links[:1] if name in _EVERY else [link for link in links if link.knows(name)]
    # A class of somebody else's may take what it does not name.
    takers = takers or [link for link in links if not link.closed][:1]
    if not takers:
        raise _unknown(name, links)
    return list(takers)


def _keys_of(protocol: str) -> frozenset[str]:
    names = same_protocols(protocol)
    return names | {alias for protocol, alias in _NAMES_OF_OURS.items() if protocol in names}


def _add(into: dict[str, Any], options: Mapping[str, Any]) -> None:
    for name, value in options.items():
        if name in into and into[name] is not value and into[name] != value:
            raise ValueError(f"the storage option {name!r} is given twice, with different values")
        into[name] = value


def _named(function: Any) -> set[str]:
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {name for name, parameter in inspect.signature(function).parameters.items() if parameter.kind in kinds}


def _unknown(name: str, links: Sequence[Link]) -> TypeError:
    known = "; ".join(f"{link.protocol} knows {', '.join(sorted(link.names)) or 'none'}" for link in links)
    return TypeError(f"unknown storage option {name!r}: {known}")
