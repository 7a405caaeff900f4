"""`storage_options`, translated by one table: the names that fsspec, obstore and the clouds' tools use, to ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class S3Options:
    """The options of an S3 store that were given; None: not given.

    Attributes:
        anon: send unsigned requests, to public buckets.
        key, secret, token: an access key, its secret and, for temporary credentials, the session token.
        profile: a profile of `~/.aws`.
        endpoint_url: an S3-compatible server, for which buckets are then part of the path.
        region: the bucket's region.
        requester_pays: the requests are paid by these credentials' account.
        virtual_hosted: put the bucket into the host name; None: for AWS itself.
        max_connections, idle_timeout, connect_timeout: as for `HTTPStore`.
    """

    anon: bool | None = None
    key: str | None = field(default=None, repr=False)
    secret: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    profile: str | None = None
    endpoint_url: str | None = None
    region: str | None = None
    requester_pays: bool | None = None
    virtual_hosted: bool | None = None
    max_connections: int | None = None
    idle_timeout: float | None = None
    connect_timeout: float | None = None


# Other names of the same options. obstore's names may carry its prefix `aws_`, and may be in upper case.
_ALIASES = {
    "access_key_id": "key",
    "secret_access_key": "secret",
    "session_token": "token",
    "skip_signature": "anon",
    "endpoint": "endpoint_url",
    "region_name": "region",
    "default_region": "region",
    "request_payer": "requester_pays",
    "virtual_hosted_style_request": "virtual_hosted",
}
_BOOLS = frozenset({"anon", "requester_pays", "virtual_hosted"})
_NUMBERS = frozenset({"max_connections", "idle_timeout", "connect_timeout"})
_TRUE, _FALSE = frozenset({"true", "1", "yes", "on", "requester"}), frozenset({"false", "0", "no", "off", ""})


def s3_options(given: Mapping[str, Any]) -> S3Options:
    """Translate `storage_options` of an S3 store.

    `client_kwargs`, as s3fs takes it, is looked into. An option that is None counts as not given.

    Raises:
        TypeError: an unknown option, or a value of the wrong type; the message lists the known ones.
        ValueError: one option is given twice with different values, or options contradict each other.
    """
    found: dict[str, Any] = {}
    for name, value in _flat(given):
        known = _known_name(name)
        if value is None:
            continue
        value = _checked(known, value)
        if found.setdefault(known, value) != value:
            raise ValueError(f"the storage option {known!r} is given twice, with different values")
    options = S3Options(**found)
    if (options.key is None) != (options.secret is None):
        raise ValueError("the storage options 'key' and 'secret' go together")
    if options.token is not None and options.key is None:
        raise ValueError("the storage option 'token' goes with 'key' and 'secret'")
    if options.anon and (options.key is not None or options.profile is not None):
        raise ValueError("the storage option 'anon' sends no credentials, and credentials are given")
    if options.profile is not None and options.key is not None:
        raise ValueError("the storage options 'profile' and 'key' exclude each other")
    return options


def _flat(given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in given.items():
        if name != "client_kwargs":
            yield name, value
        elif isinstance(value, Mapping):
            yield from value.items()
        elif value is not None:
            raise TypeError("the storage option 'client_kwargs' is a mapping")


def _known_name(name: str) -> str:
    plain = name.lower().removeprefix("aws_")
    plain = _ALIASES.get(plain, plain)
    if plain not in _NAMES:
        raise TypeError(f"unknown storage option {name!r}; an S3 store knows {', '.join(_NAMES)}")
    return plain


_NAMES = tuple(item.name for item in fields(S3Options))


def _checked(name: str, value: object) -> object:
    if name in _BOOLS:
        return _as_bool(name, value)
    if name in _NUMBERS:
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise TypeError(f"the storage option {name!r} is a number above 0")
        return value
    if not isinstance(value, str):
        raise TypeError(f"the storage option {name!r} is a str, not {type(value).__name__}")
    if any(ord(character) <= 0x20 or ord(character) == 0x7F for character in value) and name != "profile":
        raise ValueError(f"the storage option {name!r} holds blanks or control characters")
    return value


def _as_bool(name: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise TypeError(f"the storage option {name!r} is a bool")
