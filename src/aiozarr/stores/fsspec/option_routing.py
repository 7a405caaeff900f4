"""Assigns options to the links of a chain of file systems, by the arguments of their classes."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aiozarr.fork_safe_cached_property import fork_safe_cached_property
from aiozarr.stores.fsspec.traits import below
from aiozarr.stores.options.azure_options import AZURE_TABLE
from aiozarr.stores.options.gcs_options import GCS_TABLE
from aiozarr.stores.options.option_table import OptionTable, same_protocols
from aiozarr.stores.options.s3_options import S3_TABLE

TABLES: dict[str, OptionTable] = {
    **dict.fromkeys(("s3", "s3a"), S3_TABLE),
    **dict.fromkeys(("gs", "gcs"), GCS_TABLE),
    **dict.fromkeys(("az", "abfs", "abfss", "adl"), AZURE_TABLE),
}
_NAMES_OF_OURS = {"s3": "s3fs", "gs": "gcsfs"}

# Arguments of every file system; some take them by **kwargs.
_COMMON = frozenset(
    {"asynchronous", "batch_size", "listings_expiry_time", "loop", "max_paths", "skip_instance_cache"}
    | {"use_listings_cache"}
)
# Classes that pass unknown arguments to fsspec's base class, which ignores them.
_CLOSED = frozenset(
    f"fsspec.implementations.{name}"
    for name in ("cached", "data", "dirfs", "ftp", "git", "github", "http", "libarchive", "local", "memory")
) | {"fsspec.implementations.reference", "fsspec.implementations.tar", "fsspec.implementations.zip"}
_CLOSED_PACKAGES = frozenset({"gcsfs", "s3fs"})


@dataclass(frozen=True)
class ChainLink:
    """One file system of a chain.

    Attributes:
        protocol: its name in URLs and among options.
        kind: its class.
    """

    protocol: str
    kind: Any

    @property
    def closed(self) -> bool:
        """Whether an argument without a parameter is a mistake."""
        module = self.kind.__module__
        return module in _CLOSED or module.partition(".")[0] in _CLOSED_PACKAGES

    # Not functools.cached_property: before Python 3.12 it takes a lock, which a fork leaves locked in the child.
    @fork_safe_cached_property
    def names(self) -> frozenset[str]:
        """The names of its parameters."""
        found: set[str] = set()
        for kind in self.kind.__mro__:
            if "__init__" in vars(kind) and kind is not object:
                found |= _named(vars(kind)["__init__"])
        if self.kind.__module__ == "fsspec.implementations.http":
            import aiohttp

            found |= _named(aiohttp.ClientSession._request) - {"method", "str_or_url"}
        elif self.kind.__module__.startswith("s3fs"):
            found.add("profile")  # an argument of the session that s3fs creates
        return frozenset(found - {"self"} - _COMMON)

    def knows(self, name: str) -> bool:
        """Return whether `name` is a parameter, or our or obstore's name of one."""
        table = TABLES.get(self.protocol)
        return name in self.names or (table is not None and table.knows(name))

    def check(self, options: Mapping[str, Any]) -> None:
        """Check that the link has all of `options`.

        Raises:
            TypeError: it has not.
        """
        unknown = [name for name in options if not self.knows(name) and name not in _COMMON]
        if self.closed and unknown:
            raise _unknown(unknown[0], [self])


def split_by_protocol(links: Sequence[ChainLink], options: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return `options` by the protocols of `links`.

    Raises:
        TypeError: an option that no link has, or a protocol's value that is not a mapping.
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
        for link in _links_with(name, links):
            _add(given[link.protocol], {name: value})
    return given


def needs_target(kind: Any) -> bool:
    """Return whether a file system of the class `kind` is in a file of another one."""
    parameter = inspect.signature(kind.__init__).parameters.get("fo")
    return parameter is not None and (parameter.default is inspect.Parameter.empty or parameter.default == "")


def _links_with(name: str, links: Sequence[ChainLink]) -> list[ChainLink]:
    matching = links[:1] if name in _COMMON else [link for link in links if link.knows(name)]
    # A third-party class may accept arguments without a parameter.
    matching = matching or [link for link in links if not link.closed][:1]
    if not matching:
        raise _unknown(name, links)
    return list(matching)


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


def _unknown(name: str, links: Sequence[ChainLink]) -> TypeError:
    known = "; ".join(f"{link.protocol} knows {', '.join(sorted(link.names)) or 'none'}" for link in links)
    return TypeError(f"unknown storage option {name!r}: {known}")


_S3 = frozenset({"s3", "s3a"})

NO_RETRIES = {"total_max_attempts": 1, "mode": "legacy"}
"""botocore's option for a single attempt. It converts other spellings to this one, in the given mapping."""


def native_options(links: Sequence[ChainLink], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return `options` for a chain, the first link first: for each link under its protocol, with its own names.

    Options under a protocol are for its link. Others are for each link that has them, and common options for the first
    link. Our and obstore's names are translated if there is a table for the protocol.

    Raises:
        TypeError: an option that no link has, or a protocol's value that is not a mapping.
        ValueError: an option is given twice, with different values.
    """
    given = split_by_protocol(links, options)
    native = {protocol: _of_one(protocol, own) for protocol, own in given.items()}
    return {protocol: own for protocol, own in native.items() if own}


def with_timeouts(links: Sequence[ChainLink], native: Mapping[str, Any], idle: float, connect: float) -> dict[str, Any]:
    """Return `native` with timeouts of `idle` seconds without progress, for the file systems that have such an option.

    Timeouts in `native` are not changed.
    """
    found = dict(native)
    for link in links:
        own = dict(found.get(link.protocol) or {})
        if TABLES.get(link.protocol) is S3_TABLE:
            config = dict(own.get("config_kwargs") or {})
            own["config_kwargs"] = {"read_timeout": idle, "connect_timeout": connect, **config}
        elif TABLES.get(link.protocol) is GCS_TABLE:
            own.setdefault("requests_timeout", _of_aiohttp(idle, connect))
        elif link.kind.__module__ == "fsspec.implementations.http":
            if "timeout" not in own:
                own["client_kwargs"] = {"timeout": _of_aiohttp(idle, connect), **(own.get("client_kwargs") or {})}
        elif "timeout" in link.names:
            own.setdefault("timeout", idle)
        if own:
            found[link.protocol] = own
    return found


def _of_aiohttp(idle: float, connect: float) -> Any:
    import aiohttp

    return aiohttp.ClientTimeout(total=None, sock_connect=connect, sock_read=idle)


def _of_one(protocol: str, options: Mapping[str, Any]) -> dict[str, Any]:
    table = TABLES.get(protocol)
    if table is GCS_TABLE and options.get("anon") is not None:
        given = dict(options)
        anonymous = GCS_TABLE.translate({"anon": given.pop("anon")})["anon"]
        options = {**given, "token": "anon"} if anonymous else given  # the name of gcsfs
    native = dict(options) if table is None else table.to_fsspec(options)
    if protocol in _S3:
        config = dict(native.get("config_kwargs") or {})
        config.setdefault("retries", dict(NO_RETRIES))
        native["config_kwargs"] = config
    return native


def try_once(fs: Any) -> Any:
    """Switch off the retries that s3fs has besides botocore's; return `fs`.

    Only instances with our option of botocore are changed; fsspec returns them to no other user.
    """
    inner = fs
    while inner is not None:
        if type(inner).__module__.startswith("s3fs") and inner.config_kwargs.get("retries") == NO_RETRIES:
            inner.retries = 1
        inner = below(inner)
    return fs
