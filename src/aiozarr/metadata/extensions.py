"""How documents name extensions: codecs, grids, encodings, transformers (v3 core specification, "Extension points")."""

from __future__ import annotations

from typing import Any

from aiozarr.errors import InvalidMetadataError, UnsupportedMetadataError
from aiozarr.metadata.document import clip
from aiozarr.metadata.records import NamedConfig

MAX_EXTENSIONS = 64
"""Codecs or storage transformers of one array: far more than any real chain, far fewer than an attack needs."""

MAX_NAME = 1000
"""Characters of a name, which may be a URL; names go into messages."""


def parse_extensions(value: object, member: str) -> tuple[NamedConfig, ...]:
    """Return the extensions of a list, at most 64.

    Raises:
        InvalidMetadataError: `value` is no list of extensions; `member` is where the fault lies.
        UnsupportedMetadataError: there are more.
    """
    if not isinstance(value, list):
        raise InvalidMetadataError("a list of extensions is wanted here", member=member)
    if len(value) > MAX_EXTENSIONS:
        raise beyond(member, f"at most {MAX_EXTENSIONS} are read, not {len(value)}")
    return tuple([parse_extension(part, f"{member}[{i}]") for i, part in enumerate(value)])


def parse_extension(value: object, member: str) -> NamedConfig:
    """Return an extension: an object with a name, or the name alone, as v3.1 allows.

    Raises:
        InvalidMetadataError: `value` is something else; `member` is where it lies.
        UnsupportedMetadataError: the name is longer than 1,000 characters.
    """
    if isinstance(value, str):
        return NamedConfig(_check_name(value, member))
    if not isinstance(value, dict):
        raise InvalidMetadataError("an extension is an object or a string", member=member)
    name = value.get("name")
    if not isinstance(name, str):
        raise InvalidMetadataError("an extension has a name, which is a string", member=f"{member}.name")
    configuration = value.get("configuration", {})
    if not isinstance(configuration, dict):
        raise InvalidMetadataError("a configuration is an object", member=f"{member}.configuration")
    must_understand = value.get("must_understand", True)
    if not isinstance(must_understand, bool):
        raise InvalidMetadataError("true or false is wanted here", member=f"{member}.must_understand")
    for key in value:
        if key not in ("name", "configuration", "must_understand"):
            raise InvalidMetadataError("an extension has no such member", member=clip(f"{member}.{key}"))
    return NamedConfig(_check_name(name, member), configuration, must_understand)


def render_extension(extension: NamedConfig) -> dict[str, Any]:
    """Write the object form always: readers of v3.0 do not know the short one."""
    members: dict[str, Any] = {"name": extension.name}
    # zarr-python refuses a codec of numcodecs without the member, which the specification lets be absent.
    if extension.configuration or extension.name.startswith("numcodecs."):
        members["configuration"] = dict(extension.configuration)
    if not extension.must_understand:
        members["must_understand"] = False
    return members


def may_be_ignored(value: object) -> bool:
    """Return whether `value` says of itself that readers who do not know it may ignore it."""
    return isinstance(value, dict) and value.get("must_understand") is False


def beyond(member: str, reason: str) -> UnsupportedMetadataError:
    """Return the error for what the format allows and is more than aiozarr takes."""
    return UnsupportedMetadataError(reason, member=member)


def _check_name(name: str, member: str) -> str:
    if len(name) > MAX_NAME:
        raise beyond(member, f"a name has at most {MAX_NAME} characters, not {len(name)}")
    return name
