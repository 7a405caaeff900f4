"""Codec chains in specs, which may be partial: parsing, strict or loose merging, and JSON (TensorStore)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from aiozarr.codecs import get_codec
from aiozarr.common.formatting import shown
from aiozarr.driver.json_members import (
    JSON,
    Members,
    SpecConflictError,
    boolean,
    integer,
    invalid,
    items,
    lengths,
    one_of,
    permutation,
    text,
)
from aiozarr.errors import InvalidMetadataError

Options: TypeAlias = Mapping[str, JSON]
SHARDING = "sharding_indexed"
ARRAY_TO_ARRAY = frozenset({"transpose"})
ARRAY_TO_BYTES = frozenset({"bytes", SHARDING})
BYTES_TO_BYTES = frozenset({"blosc", "crc32c", "gzip", "zstd"})


@dataclass(frozen=True)
class CodecSpec:
    """One codec. Options that are missing are unconstrained.

    Attributes:
        name: the name in documents.
        options: the options; `codecs` and `index_codecs` of shards are `CodecChainSpec`.
    """

    name: str
    options: Options = field(default_factory=dict)

    def to_json(self) -> dict[str, JSON]:
        """Return the codec as in documents."""
        options = {
            name: value.to_json() if isinstance(value, CodecChainSpec) else _as_list(value)
            for name, value in sorted(self.options.items())
        }
        return {"configuration": options, "name": self.name} if options else {"name": self.name}

    def __hash__(self) -> int:
        return hash(self.name)


@dataclass(frozen=True)
class CodecChainSpec:
    """A chain of codecs in the order of encoding.

    Attributes:
        array_to_array: codecs from arrays to arrays.
        array_to_bytes: the codec from arrays to bytes; None if it is unconstrained.
        bytes_to_bytes: codecs from bytes to bytes.
    """

    array_to_array: tuple[CodecSpec, ...] = ()
    array_to_bytes: CodecSpec | None = None
    bytes_to_bytes: tuple[CodecSpec, ...] = ()

    @classmethod
    def parse(cls, value: JSON, path: str) -> CodecChainSpec:
        """Return the chain of an array of codecs, each an object or a name.

        Raises:
            InvalidSpecError: a codec is unknown, has an unknown option, or is out of order.
        """
        chain = cls()
        for where, each in items(value, path):
            codec = _parse_codec(each, where)
            if codec.name in ARRAY_TO_ARRAY and chain.array_to_bytes is None and not chain.bytes_to_bytes:
                chain = replace(chain, array_to_array=(*chain.array_to_array, codec))
            elif codec.name in ARRAY_TO_BYTES and chain.array_to_bytes is None and not chain.bytes_to_bytes:
                chain = replace(chain, array_to_bytes=codec)
            elif codec.name in BYTES_TO_BYTES:
                chain = replace(chain, bytes_to_bytes=(*chain.bytes_to_bytes, codec))
            else:
                raise invalid(where, f"expected a bytes-to-bytes codec, not {codec.name!r}, which encodes arrays")
        return chain

    @property
    def sharding_height(self) -> int:
        """Number of levels of shards."""
        return 1 + self.inner.sharding_height if self.is_sharded else 0

    @property
    def is_sharded(self) -> bool:
        """True if the codec from arrays to bytes makes shards."""
        return self.array_to_bytes is not None and self.array_to_bytes.name == SHARDING

    @property
    def inner(self) -> CodecChainSpec:
        """The chain of the inner chunks of a sharded chain; empty if it is unconstrained."""
        assert self.array_to_bytes is not None
        found: CodecChainSpec = self.array_to_bytes.options.get("codecs", CodecChainSpec())
        return found

    def to_json(self) -> list[JSON]:
        """Return the codecs as in documents."""
        middle = () if self.array_to_bytes is None else (self.array_to_bytes,)
        return [codec.to_json() for codec in (*self.array_to_array, *middle, *self.bytes_to_bytes)]

    def merged(self, other: CodecChainSpec, member: str, *, strict: bool) -> CodecChainSpec:
        """Return the chain that satisfies both.

        Strict: equal numbers of codecs of equal kinds, whose options agree where both have them. The codec from arrays
        to bytes may be missing. Loose: a chain without a level of shards applies to the inner chunks of the other, and
        one of them may have one more `transpose` at its end.

        Raises:
            SpecConflictError: no chain does.
        """
        if not strict and self.sharding_height != other.sharding_height:
            one, two = (self, other) if self.sharding_height > other.sharding_height else (other, self)
            if not one.array_to_array and not one.bytes_to_bytes and one.array_to_bytes is not None:
                inner = one.array_to_bytes.options.get("codecs")
                # The options of the first chain come first, so that errors name the constraint as expected.
                merged = two if inner is None else inner.merged(two, member, strict=False)
                options = {**one.array_to_bytes.options, "codecs": merged}
                return CodecChainSpec((), CodecSpec(SHARDING, options), ())
        a2a, others = self.array_to_array, other.array_to_array
        added: tuple[CodecSpec, ...] = ()
        if not strict and abs(len(a2a) - len(others)) == 1:
            longer = a2a if len(a2a) > len(others) else others
            if longer[-1].name == "transpose":
                added = longer[-1:]
                a2a, others = a2a[: len(longer) - 1], others[: len(longer) - 1]
        return CodecChainSpec(
            (*self._merged_all(a2a, others, other, member, strict), *added),
            _merged_codec(self.array_to_bytes, other.array_to_bytes, member, strict),
            self._merged_all(self.bytes_to_bytes, other.bytes_to_bytes, other, member, strict),
        )

    def _merged_all(
        self, mine: Sequence[CodecSpec], others: Sequence[CodecSpec], other: CodecChainSpec, member: str, strict: bool
    ) -> tuple[CodecSpec, ...]:
        if len(mine) != len(others):
            raise _conflict(self.to_json(), other.to_json(), "have different numbers of codecs", member)
        merged = [_merged_codec(a, b, member, strict) for a, b in zip(mine, others, strict=True)]
        return tuple([each for each in merged if each is not None])


def with_index_location(chain: CodecChainSpec) -> CodecChainSpec:
    """Return the chain with the location of every shard index, which documents omit if it is the end."""
    return _with_sharding(chain, lambda options: {"index_location": "end", **options})


def stored_chain(chain: CodecChainSpec) -> CodecChainSpec:
    """Return the chain as documents have it, without locations of shard indexes that are the end."""
    default = ("index_location", "end")
    return _with_sharding(chain, lambda options: dict([each for each in options.items() if each != default]))


def _with_sharding(chain: CodecChainSpec, change: Callable[[Options], Options]) -> CodecChainSpec:
    """Return the chain with the options of every level of shards changed."""
    if chain.array_to_bytes is None or not chain.is_sharded:
        return chain
    options = {**change(chain.array_to_bytes.options), "codecs": _with_sharding(chain.inner, change)}
    return replace(chain, array_to_bytes=CodecSpec(SHARDING, options))


def _merged_codec(a: CodecSpec | None, b: CodecSpec | None, member: str, strict: bool) -> CodecSpec | None:
    if a is None or b is None:
        return b if a is None else a
    if a.name != b.name:
        raise _conflict(a.to_json(), b.to_json(), "differ", member)
    options = dict(a.options)
    for name, value in b.options.items():
        mine = options.get(name)
        if mine is None:
            options[name] = value
        elif isinstance(mine, CodecChainSpec):
            options[name] = mine.merged(value, member, strict=strict)
        elif name == "order":
            order = _merged_order(mine, value)
            if order is None:
                raise _conflict(a.to_json(), b.to_json(), "differ in 'order'", member)
            options[name] = order
        elif mine != value:
            raise _conflict(a.to_json(), b.to_json(), f"differ in {name!r}", member)
    return CodecSpec(a.name, options)


def _merged_order(a: JSON, b: JSON) -> JSON:
    """Return the transpose order that satisfies both, or None. "C" and "F" stand for an order of any rank."""
    if a == b:
        return a
    if isinstance(a, str) == isinstance(b, str):
        return None
    name, order = (a, b) if isinstance(a, str) else (b, a)
    return order if resolve_order(name, len(order)) == tuple(order) else None


def resolve_order(order: JSON, rank: int) -> tuple[int, ...]:
    """Return the `order` of a transpose as a permutation."""
    if isinstance(order, str):
        return tuple(range(rank)) if order == "C" else tuple(reversed(range(rank)))
    return tuple(order)


def _conflict(a: JSON, b: JSON, how: str, member: str) -> SpecConflictError:
    return SpecConflictError(f"the codecs {shown(a)} and {shown(b)} {how}", member=member, expected=b, found=a)


def _as_list(value: JSON) -> JSON:
    return list(value) if isinstance(value, tuple) else value


# --- the options of each codec -----------------------------------------------------------------------------------


def _order(value: JSON, path: str) -> JSON:
    return one_of("C", "F")(value, path) if isinstance(value, str) else permutation(value, path)


_OPTIONS: dict[str, dict[str, Callable[[JSON, str], Any]]] = {
    "transpose": {"order": _order},
    "bytes": {"endian": one_of("little", "big")},
    SHARDING: {
        "chunk_shape": lambda value, path: lengths(value, path, 1),
        "codecs": CodecChainSpec.parse,
        "index_codecs": CodecChainSpec.parse,
        "index_location": one_of("start", "end"),
    },
    # `check_configuration` checks the ranges of these options.
    "gzip": {"level": integer},
    "zstd": {"level": integer, "checksum": boolean},
    "blosc": {
        "cname": text,
        "clevel": integer,
        "shuffle": text,
        "typesize": lambda value, path: integer(value, path, 1, 255),
        "blocksize": integer,
    },
    "crc32c": {},
}


def check_configuration(name: str, configuration: Options, path: str) -> None:
    """Check a complete configuration with the codec that arrays use.

    Raises:
        InvalidSpecError: a member is missing or not valid.
    """
    try:
        get_codec(name).from_json(configuration)
    except InvalidMetadataError as error:
        raise invalid(f"{path}.{(error.member or '').rpartition('.')[2]}", error.message) from None


def _parse_codec(value: JSON, path: str) -> CodecSpec:
    if isinstance(value, str):
        value = {"name": value}
    with Members(value, path) as members:
        name = members.require("name", text)
        known = _OPTIONS.get(name)
        if known is None:
            raise invalid(members.at("name"), f"unknown codec {name!r}; expected one of {', '.join(sorted(_OPTIONS))}")

        def options(configuration: JSON, where: str) -> Options:
            with Members(configuration, where) as each:
                found = {option: each.take(option, parse, None) for option, parse in known.items()}
            given = {option: value for option, value in found.items() if value is not None}
            if name in BYTES_TO_BYTES:
                check_configuration(name, {**get_codec(name).default_configuration, **given}, where)
            return given

        nothing: Options = {}
        parsed = members.take("configuration", options, nothing)
        if name == "transpose" and "order" not in parsed:
            raise invalid(members.at("configuration.order"), "the member is missing")
        return CodecSpec(name, parsed)
