"""Parse and render extensions in documents (v3 core specification, "Extension points")."""

from __future__ import annotations

from typing import Any

from aiozarr.common.formatting import clip
from aiozarr.errors import InvalidMetadataError, UnsupportedMetadataError
from aiozarr.metadata.document import CHECKS
from aiozarr.metadata.records import NamedConfig

ELEMENTS = "v2_elements"
"""The model's codec for the encoding of elements in formats 1 and 2. No document has it."""

MAX_EXTENSIONS = 64
"""Maximum number of codecs, or of storage transformers, of one array: more than real arrays have."""

MAX_NAME_LENGTH = 1000
"""Maximum number of characters of a name, which may be a URL. Names appear in messages."""


def parse_extensions(value: object, member: str) -> tuple[NamedConfig, ...]:
    """Return the extensions of a list, at most 64.

    Raises:
        InvalidMetadataError: `value` is not a list of extensions; `member` is the path of the invalid part.
        UnsupportedMetadataError: the list has more than 64 extensions.
    """
    parts = CHECKS.check(value, member, list, "a list of extensions")
    if len(parts) > MAX_EXTENSIONS:
        raise unsupported_member(member, f"at most {MAX_EXTENSIONS} are allowed, not {len(parts)}")
    return tuple([parse_extension(part, f"{member}[{i}]") for i, part in enumerate(parts)])


def parse_extension(value: object, member: str) -> NamedConfig:
    """Return an extension: an object with a name, or the name alone (since v3.1).

    Raises:
        InvalidMetadataError: `value` has another form; `member` is the path of the invalid part.
        UnsupportedMetadataError: the name is longer than 1,000 characters.
    """
    if isinstance(value, str):
        return NamedConfig(_check_name(value, member))
    members = CHECKS.check(value, member, dict, "an object or a string")
    name = CHECKS.check(members.get("name"), f"{member}.name", str, "a string")
    configuration = CHECKS.check(members.get("configuration", {}), f"{member}.configuration", dict, "an object")
    must_understand = CHECKS.boolean(members.get("must_understand", True), f"{member}.must_understand")
    for key in members:
        if key not in ("name", "configuration", "must_understand"):
            raise InvalidMetadataError("unknown member of an extension", member=clip(f"{member}.{key}"))
    return NamedConfig(_check_name(name, member), configuration, must_understand)


def render_extension(extension: NamedConfig) -> dict[str, Any]:
    """Return the object form of an extension, because readers of v3.0 do not know the short form."""
    members: dict[str, Any] = {"name": extension.name}
    # The member is optional in the specification, but zarr-python requires it for codecs of numcodecs.
    if extension.configuration or extension.name.startswith("numcodecs."):
        members["configuration"] = dict(extension.configuration)
    if not extension.must_understand:
        members["must_understand"] = False
    return members


def may_be_ignored(value: object) -> bool:
    """Return whether `value` has `"must_understand": false`: readers that do not know it may ignore it."""
    return isinstance(value, dict) and value.get("must_understand") is False


def unsupported_member(member: str, reason: str) -> UnsupportedMetadataError:
    """Return the error for a valid member that exceeds a limit or lacks support in aiozarr."""
    return UnsupportedMetadataError(reason, member=member)


def refuse_pickle(name: str, member: str) -> None:
    """Reject pickle in any spelling: decoding it runs code from the stored bytes.

    Raises:
        UnsupportedMetadataError: `name` is pickle.
    """
    if name.casefold().strip().rpartition(".")[2] == "pickle":
        raise UnsupportedMetadataError(
            f"the codec {clip(name)!r} is never used: unpickling runs code from the stored bytes",
            member=member,
            point="codec",
            name=clip(name),
        )


def _check_name(name: str, member: str) -> str:
    if len(name) > MAX_NAME_LENGTH:
        raise unsupported_member(member, f"a name may have at most {MAX_NAME_LENGTH} characters, not {len(name)}")
    return name
