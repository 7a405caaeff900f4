"""The codec `v2_elements`: encodes elements of a v2 data type with filters and a compressor (v2, "Filters").

The stage of a numcodecs configuration is a built-in one, or one that a package registered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, cast

import numpy as np
from numcodecs import get_codec as get_numcodec
from numcodecs.registry import codec_registry
from typing_extensions import Buffer

from aiozarr.codecs.codec import (
    JSON,
    AnyArray,
    ArrayBytesCodec,
    ArraySpec,
    BytesBytesCodec,
    array_over,
    byte_array,
    byte_view,
)
from aiozarr.codecs.numcodecs_documents import JsonDocument, LegacyJsonDocument, LegacyMsgpackDocument, MsgpackDocument
from aiozarr.codecs.numcodecs_filters import ARRAY_FILTERS
from aiozarr.codecs.numcodecs_numbers import NumbersCodec, NumcodecsPcodecCodec, NumcodecsZfpyCodec
from aiozarr.codecs.numcodecs_objects import Categorize, ObjectFilter, VariableArray, VariableBytes, VariableText
from aiozarr.codecs.registry import check_members, get_codec, invalid, one_of, register_codec, required, unsupported
from aiozarr.codecs.v2_stages import (
    PREFIX,
    ArrayStage,
    BytesStage,
    Extent,
    ForeignStage,
    NumbersStage,
    ObjectStage,
    Stage,
)
from aiozarr.common.formatting import did_you_mean, shown
from aiozarr.errors import CodecError, InvalidMetadataError, MetadataError, UnsupportedMetadataError

_MAX_DEPTH = 16
_MAX_FIELDS = 1 << 12
_MAX_FILTERS = 32
_MAX_GROWTH = 16
_SLACK = 1 << 24
_OBJECT = np.dtype(object)


@register_codec
@dataclass(frozen=True, eq=False)
class V2ElementsCodec(ArrayBytesCodec):
    """Encodes v2 arrays with filters, fields, mixed byte orders or objects. v3 documents cannot name this codec.

    Attributes:
        dtype: the stored type of the elements.
        stages: filters and compressor, in the order of encoding.
        configuration: the configuration of this codec.
    """

    name = "v2_elements"
    dtype: np.dtype[Any]
    stages: tuple[Stage, ...]
    configuration: Mapping[str, JSON] = field(default_factory=dict)

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        check_members(configuration, ("dtype", "filters", "compressor", "order"), name=cls.name)
        dtype = parse_v2_dtype(required(configuration, "dtype"))
        filters = configuration.get("filters") or []
        if not isinstance(filters, (list, tuple)):
            raise invalid("filters", f"it must be a list, not {shown(filters)}")
        if len(filters) > _MAX_FILTERS:
            raise UnsupportedMetadataError(
                f"{len(filters)} filters; at most {_MAX_FILTERS} are allowed", member="configuration.filters"
            )
        stages = [_stage(config, f"configuration.filters[{i}]") for i, config in enumerate(filters)]
        if configuration.get("compressor") is not None:
            stages.append(_stage(configuration["compressor"], "configuration.compressor"))
        if dtype.hasobject and not (stages and stages[0].takes_objects):
            raise InvalidMetadataError(
                "the first filter of an array of objects must encode objects to bytes", member="configuration.filters"
            )
        for i, stage in enumerate(stages):
            makers = (BytesStage, NumbersStage, ObjectStage)
            if isinstance(stage, makers[1:]) and any([isinstance(before, makers) for before in stages[:i]]):
                raise InvalidMetadataError(
                    f"{stage.name!r} encodes elements, but a filter before it yields bytes",
                    member=f"configuration.filters[{i}]" if i < len(filters) else "configuration.compressor",
                )
        codec = cls(dtype, tuple(stages), dict(configuration))
        if "order" in configuration and one_of(configuration, "order", ("C", "F")) == "F" and not codec.tells_shape:
            raise invalid("order", "it may be absent only if the encoding stores the shape")
        return codec

    def to_json(self) -> dict[str, JSON]:
        return dict(self.configuration)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, V2ElementsCodec) and self.configuration == other.configuration

    def __hash__(self) -> int:
        return hash((self.name, self.dtype, len(self.stages)))

    @property
    def tells_shape(self) -> bool:
        """True if the bytes store the array's shape, so that they do not depend on its order in memory."""
        first = self.stages[0] if self.stages else None
        return (
            isinstance(first, ObjectStage)
            and isinstance(first.filter, (JsonDocument, MsgpackDocument))
            and first.filter.tells_shape
        )

    def resolve(self, spec: ArraySpec) -> None:
        native: np.dtype[Any] = self.dtype.newbyteorder("=")
        if spec.is_variable != self.dtype.hasobject or (not spec.is_variable and spec.dtype != native):
            raise InvalidMetadataError(
                f"elements of {spec.dtype} are not stored as {self.dtype}", member="configuration.dtype"
            )
        try:
            self._extents(spec)
        except MetadataError as error:
            error.member = "configuration.filters"
            raise

    def encode(self, array: AnyArray, spec: ArraySpec) -> Buffer:
        value: AnyArray = np.asarray(array, self.dtype, order="C")
        for stage in self.stages:
            value = stage.encode(value)
        return byte_view(value)

    def decode(self, data: Buffer, spec: ArraySpec, *, out: AnyArray | None = None) -> AnyArray:
        value: AnyArray = byte_array(data)
        extents = self._extents(spec)
        for stage, extent in zip(reversed(self.stages), extents[-2::-1], strict=True):
            if value.dtype.hasobject:
                raise CodecError("it decodes bytes, but the filter after it yields objects", codec=stage.name)
            value = stage.decode(value, extent)
        return self._objects(value, spec) if self.dtype.hasobject else self._elements(value, spec, out)

    def compute_encoded_size(self, spec: ArraySpec) -> int | None:
        return self._extents(spec)[-1].exact

    def max_encoded_size(self, spec: ArraySpec) -> int:
        return self._extents(spec)[-1].bound

    def _is_bounded(self, spec: ArraySpec) -> bool:
        return not (self.stages and isinstance(self.stages[-1], ForeignStage))

    def encoded_item_size(self, spec: ArraySpec) -> int:
        return self._extents(spec)[-1].item_size

    def stores_memory(self, spec: ArraySpec) -> bool:
        return not self.stages and self.dtype == spec.dtype

    def stored_type(self, spec: ArraySpec) -> np.dtype[Any] | None:
        return None if self.stages else self.dtype

    def _extents(self, spec: ArraySpec) -> list[Extent]:
        """Return the extents before each stage and after the last."""
        exact = None if spec.is_variable else spec.size * self.dtype.itemsize
        bound = spec.max_bytes if exact is None else exact
        extents = [Extent(spec.size, 1 if exact is None else self.dtype.itemsize, exact, bound, self.dtype)]
        # Each stage's bound allows for growth, so many stages together would allow any growth. Real bytes hardly grow.
        most = _MAX_GROWTH * bound + _SLACK
        for stage in self.stages:
            measured = stage.measure(extents[-1])
            if isinstance(stage, (ObjectStage, NumbersStage)):
                most = _MAX_GROWTH * measured.bound + _SLACK
            if measured.exact is not None and measured.exact > most:
                raise unsupported(f"filters that encode {bound} bytes to {measured.exact}", stage.name)
            extents.append(replace(measured, bound=min(measured.bound, most)))
        return extents

    def _elements(self, value: AnyArray, spec: ArraySpec, out: AnyArray | None) -> AnyArray:
        if value.dtype.hasobject:
            # Strings and numbers that an object codec has decoded.
            try:
                value = value.astype(self.dtype)
            except (TypeError, ValueError, OverflowError) as error:
                raise CodecError(
                    f"the values are not elements of {self.dtype}: {shown(str(error))}", codec=self.name
                ) from error
        nbytes = spec.size * self.dtype.itemsize
        if value.nbytes != nbytes:
            raise CodecError(f"chunk has {value.nbytes} bytes, expected {nbytes}", codec=self.name)
        array = array_over(byte_view(value), spec.shape, self.dtype)
        if self.dtype == spec.dtype:
            return array
        if out is None:
            return array.astype(spec.dtype)
        np.copyto(out, array)
        return out

    def _objects(self, value: AnyArray, spec: ArraySpec) -> AnyArray:
        if value.size != spec.size:
            raise CodecError(f"there are {value.size} elements, expected {spec.size}", codec=self.name)
        if value.dtype.kind in "SV":
            raise CodecError(f"the filters yield {value.dtype}, not objects", codec=self.name)
        elements = value.reshape(spec.shape)
        if spec.dtype == elements.dtype:
            return elements
        if spec.dtype.kind == "T":
            wrong = next((item for item in value.tolist() if not isinstance(item, str)), None)
            if wrong is not None:
                raise CodecError(f"elements must be strings, not {shown(wrong)}", codec=self.name)
        return elements.astype(spec.dtype)


def parse_v2_dtype(value: JSON) -> np.dtype[Any]:
    """Return the numpy type of a v2 `dtype`: a string, or a list of fields that may be nested (v2, "Data type").

    Raises:
        InvalidMetadataError: `value` is not a data type.
        UnsupportedMetadataError: there are too many fields, or fields are nested too deeply.
    """
    try:
        dtype: np.dtype[Any] = np.dtype(_description(value, 0, [0]))
    except (TypeError, ValueError, OverflowError, MemoryError) as error:
        raise invalid("dtype", f"{shown(value)} is not a data type: {shown(str(error))}") from error
    if dtype.itemsize == 0 or (dtype.hasobject and dtype.names is not None):
        raise invalid("dtype", f"{shown(value)} has no fixed size")
    return dtype


def _description(value: JSON, depth: int, fields: list[int]) -> Any:
    if isinstance(value, str):
        # numpy also accepts lists of types in one string, shapes, and names of C types. These are refused.
        if "," in value or "(" in value:
            raise invalid("dtype", f"{shown(value)} is not a simple type")
        return value
    if not isinstance(value, (list, tuple)) or not value:
        raise invalid("dtype", f"it must be a string or a list of fields, not {shown(value)}")
    fields[0] += len(value)
    if depth >= _MAX_DEPTH or fields[0] > _MAX_FIELDS:
        raise UnsupportedMetadataError(
            f"a data type of more than {_MAX_FIELDS} fields, or nested more than {_MAX_DEPTH} deep",
            member="configuration.dtype",
            point="data_type",
        )
    return [_field(item, depth, fields) for item in value]


def _field(item: JSON, depth: int, fields: list[int]) -> tuple[Any, ...]:
    if not isinstance(item, (list, tuple)) or not 2 <= len(item) <= 3 or not isinstance(item[0], str):
        raise invalid("dtype", f"a field must be [name, type] or [name, type, shape], not {shown(item)}")
    inner = _description(item[1], depth + 1, fields)
    if len(item) == 2:
        return (item[0], inner)
    lengths: Sequence[Any] = item[2] if isinstance(item[2], (list, tuple)) else [item[2]]
    if not all(isinstance(length, int) and 0 < length < 2**31 for length in lengths):
        raise invalid("dtype", f"{shown(item[2])} is not the shape of a field")
    return (item[0], inner, tuple(lengths))


def _stage(config: JSON, member: str) -> Stage:
    if not isinstance(config, Mapping):
        raise InvalidMetadataError(f"a numcodecs configuration must be an object, not {shown(config)}", member=member)
    try:
        return build_stage(config)
    except MetadataError as error:
        error.member = member if error.member is None else f"{member}.{error.member}"
        raise


BYTES_CODEC_IDS = (
    *("blosc", "zstd", "zlib", "gzip", "bz2", "lzma", "lz4", "base64", "shuffle"),
    *("crc32", "crc32c", "adler32", "fletcher32", "jenkins_lookup3"),
)
"""The ids of the bytes -> bytes codecs of numcodecs. Each is the codec `numcodecs.<id>`."""

OBJECT_FILTERS: Mapping[str, type[ObjectFilter]] = {
    kind.filter_id: kind
    for kind in (
        *(VariableText, VariableBytes, VariableArray, Categorize),
        *(JsonDocument, LegacyJsonDocument, MsgpackDocument, LegacyMsgpackDocument),
    )
}

_NUMBERS: Mapping[str, type[NumbersCodec]] = {
    kind.numcodecs_id: kind for kind in (NumcodecsPcodecCodec, NumcodecsZfpyCodec)
}
_UNSAFE = "pickle"


def build_stage(config: Mapping[str, JSON]) -> Stage:
    """Return the stage of a numcodecs configuration.

    Raises:
        InvalidMetadataError: the configuration is invalid.
        UnsupportedMetadataError: the id is not registered with numcodecs, or names pickle.
    """
    name = config.get("id")
    if not isinstance(name, str) or not name:
        raise invalid("id", f"a numcodecs configuration needs an id, not {shown(name)}")
    refuse_pickle(config)
    label = PREFIX + name
    rest = {key: value for key, value in config.items() if key != "id"}
    if name in BYTES_CODEC_IDS:
        # In v3 the default size is that of the array's items. In numcodecs it is 4.
        defaults = {"elementsize": 4} if name == "shuffle" else {}
        codec = get_codec(label).from_json({**defaults, **rest})
        return BytesStage(label, cast("BytesBytesCodec", codec))
    if name in ARRAY_FILTERS:
        # numcodecs uses the array's type for bitround. Any type shows an invalid option.
        kind, is_bitround = ARRAY_FILTERS[name], name == "bitround"
        made = kind.from_json(rest, np.dtype(np.float64) if is_bitround else None)
        return ArrayStage(label, kind, rest, None if is_bitround else made)
    if name in _NUMBERS:
        return NumbersStage(label, _NUMBERS[name].from_json(rest))
    if name in OBJECT_FILTERS:
        return ObjectStage(label, OBJECT_FILTERS[name].from_json(rest))
    return _foreign(name, config)


def refuse_pickle(config: object) -> None:
    """Check that no part of a configuration names pickle, in any spelling. Unpickling would run code from the store.

    Raises:
        UnsupportedMetadataError: a part names pickle.
    """
    left = [config]
    while left:
        part = left.pop()
        if isinstance(part, Mapping):
            name = part.get("id")
            if isinstance(name, str) and _UNSAFE in name.casefold():
                reason = f"the codec {name[:200]!r} is never used: reading it would run code from the store"
                raise unsupported(reason, name[:200], member="id")
            left.extend(part.values())
        elif isinstance(part, (list, tuple)):
            left.extend(part)


def _foreign(name: str, config: Mapping[str, JSON]) -> Stage:
    try:
        codec: Any = get_numcodec(dict(config))
    except MetadataError:
        raise
    except Exception as error:  # the constructor of another package may raise anything
        if name in codec_registry:
            raise invalid("id", f"{name!r} refuses these parameters: {shown(str(error))}") from error
        hint = did_you_mean(name, [*BYTES_CODEC_IDS, *ARRAY_FILTERS, *OBJECT_FILTERS, *_NUMBERS])
        reason = (
            f"unknown numcodecs codec {name[:200]!r}{f'; {hint}' if hint else '.'} To add one, call "
            "numcodecs.register_codec or install a package with an entry point in the group 'numcodecs.codecs'"
        )
        raise unsupported(reason, name[:200], member="id") from error
    refuse_pickle({"id": str(getattr(codec, "codec_id", name))})
    return ForeignStage(PREFIX + name, codec)
