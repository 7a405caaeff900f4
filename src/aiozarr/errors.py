"""The exception tree: every error of aiozarr, with the node, key and byte range it concerns as typed fields."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, dataclass_transform

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from aiozarr.model import ByteRange

MAX_MESSAGE_LENGTH = 10_000
"""Characters of the text of an error. A URL or a key may be of any length."""


def _positional(*, kw_only: bool) -> Any:
    """Declare a field that is given by position; type checkers read the argument."""
    return ""


@dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(_positional,))
class _DeclaredFields(Exception):
    """The constructor of all errors: a class declares its fields as annotated attributes with defaults.

    Type checkers derive the typed keywords from the annotations. A value of the class stays the default of a field that
    is not given, so that a subclass can replace it.
    """

    _fields: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._fields = frozenset(cls.__annotations__).union(*(getattr(each, "_fields", ()) for each in cls.__bases__))

    def __init__(self, message: str, **fields: object) -> None:
        super().__init__(message)
        for name in fields.keys() - self._fields:
            raise TypeError(f"{type(self).__name__}() got an unexpected keyword argument {name!r}")
        self.message = message
        vars(self).update(fields)


class AiozarrError(_DeclaredFields):
    """The base of all errors that aiozarr raises about data, stores and specifications.

    Each class accepts only its own fields, as keywords. Mistakes in a call, such as a wrong keyword or type, are a
    `TypeError` or `ValueError`.

    Attributes:
        message: the text without the fields.
    """

    message: str = _positional(kw_only=False)

    def __str__(self) -> str:
        facts = self._facts()
        text = f"{self.message} ({', '.join(facts)})" if facts else self.message
        return text if len(text) <= MAX_MESSAGE_LENGTH else f"{text[:MAX_MESSAGE_LENGTH]}…"

    def _facts(self) -> list[str]:
        """Return the fields that the text of the error shows after its message."""
        return []


def _location_facts(store: str | None, key: str | None, range: ByteRange | None) -> list[str]:
    facts = [] if store is None else [f"store {store}"]
    if key is not None:
        facts.append(f"key {key!r}")
    if range is not None:
        facts.append(str(range))
    return facts


def fill_location(
    error: AiozarrError,
    *,
    store: str | None = None,
    key: str | None = None,
    range: ByteRange | None = None,
    node: str | None = None,
) -> None:
    """Fill the location fields that `error` has and that are still None.

    An error that names another key than `key` keeps its own byte range: `range` is a range of `key`.
    """
    if range is not None and getattr(error, "key", key) in (None, key) and getattr(error, "range", range) is None:
        error.range = range  # type: ignore[attr-defined]  # the class has the field: getattr has found None
    for name, value in (("store", store), ("key", key), ("node", node)):
        if value is not None and getattr(error, name, value) is None:
            setattr(error, name, value)


class located:  # noqa: N801  # used as a verb in `with`, like contextlib.suppress
    """Context manager that adds its location to an `AiozarrError` of its block: `with located(store=..., key=...):`.

    The same error object passes through, with its unset fields filled by `fill_location`. No frame is added to its
    traceback, and none keeps a reference to it. A class and not a generator, because it is entered for every chunk that
    is decoded.
    """

    __slots__ = ("_key", "_node", "_range", "_store")

    def __init__(
        self,
        *,
        store: str | None = None,
        key: str | None = None,
        range: ByteRange | None = None,
        node: str | None = None,
    ) -> None:
        self._store = store
        self._key = key
        self._range = range
        self._node = node

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, AiozarrError):
            fill_location(error, store=self._store, key=self._key, range=self._range, node=self._node)


class StoreError(AiozarrError):
    """A store operation failed because of the network, the disk or the server.

    Attributes:
        store: URL of the store, without secrets.
        key: the requested key, if the operation has one.
        range: the requested byte range; None for a whole value.
        attempts: number of times the request was sent.
        elapsed: seconds from the first attempt to this error.
        status: HTTP status of the response, if there was a response.
        request_id: the server's own id of the request, if it sent one.
        retryable: True if the same request may succeed later; aiozarr repeats such requests within `Settings.retries`
            and `Settings.retry_seconds`.
        retry_after: seconds that the server asked to wait, at most 3,600.
        target: URL of the object that a reference names, without secrets; None if the key is not a reference.
    """

    store: str | None = None
    key: str | None = None
    range: ByteRange | None = None
    attempts: int = 1
    elapsed: float | None = None
    status: int | None = None
    request_id: str | None = None
    retryable: bool = False
    retry_after: float | None = None
    target: str | None = None

    def _facts(self) -> list[str]:
        facts = _location_facts(self.store, self.key, self.range)
        if self.target is not None:
            facts.append(f"reference to {self.target}")
        if self.status is not None:
            facts.append(f"status {self.status}")
        if self.attempts > 1:
            facts.append(f"{self.attempts} attempts")
        if self.elapsed is not None:
            facts.append(f"{self.elapsed:.1f} s")
        if self.request_id is not None:
            facts.append(f"request id {self.request_id}")
        return facts


class PreconditionFailedError(StoreError):
    """A conditional write found another version of the object, or an object that should not exist. Read it again."""


class PermissionDeniedError(StoreError, PermissionError):
    """The credentials are valid but do not allow this operation (403). It is never read as a missing chunk."""


class UnauthenticatedError(StoreError):
    """The store rejects the credentials (401, an unknown key, an expired token that could not be renewed)."""


class UnsupportedOperationError(StoreError, NotImplementedError):
    """The store does not support this operation; `store.supports` lists its capabilities."""


class UnknownSchemeError(UnsupportedOperationError, ValueError):
    """No store of this version opens URLs of this scheme; the message lists the known schemes."""


class InvalidKeyError(StoreError):
    """The key or prefix is not a valid store key (see `aiozarr.stores.check_key`)."""


class ThrottledError(StoreError):
    """The server throttled every attempt (429, 503), or demanded a pause that is too long.

    A pause is too long if the next attempt would begin later than `Settings.retry_seconds` after the first.
    """

    retryable = True


class StoreTimeoutError(StoreError, TimeoutError):
    """No progress for `Settings.idle_timeout`, or the operation's deadline has passed."""

    retryable = True


class ShortReadError(StoreError):
    """The response had fewer bytes than it announced or than were requested."""

    retryable = True


class ChangedError(StoreError):
    """The object was replaced between the requests of one read. Read it again from the start."""


class DanglingReferenceError(StoreError):
    """A reference names an object that is missing, or bytes beyond its end; `target` is the URL of the object.

    It is never read as a missing chunk.
    """


class OutcomeUnknownError(StoreError):
    """The response to a conditional write was lost, and the stored object does not show whether the write happened.

    For stores of other packages. aiozarr's own stores raise the error of the last attempt, after they have compared the
    stored bytes.
    """


class ForkedProcessError(StoreError):
    """A client library of the parent process cannot be used after a fork. Open the store again in the child."""


class EraseError(StoreError):
    """Some of several keys could not be removed; all others were removed.

    Attributes:
        failures: the error of each key that was not removed.
    """

    failures: Mapping[str, StoreError] = MappingProxyType({})

    @classmethod
    def from_failures(cls, failures: Mapping[str, StoreError], store: str) -> EraseError:
        """Return the error for `failures`, of which there is at least one, with the location fields of the first."""
        key, first = next(iter(failures.items()))
        return cls(
            f"{len(failures)} {'keys' if len(failures) > 1 else 'key'} could not be removed, first {key!r}: "
            f"{first.message}",
            failures=dict(failures),
            store=store,
            key=key,
            status=first.status,
            request_id=first.request_id,
            retryable=all(error.retryable for error in failures.values()),
            retry_after=first.retry_after,
        )


class NodeError(AiozarrError):
    """The base of errors about nodes of a hierarchy.

    Attributes:
        url: the canonical URL of the node.
        path: the node's path inside its hierarchy.
    """

    url: str | None = None
    path: str | None = None


class NodeNotFoundError(NodeError, FileNotFoundError):
    """There is no array or group at the path."""


class ChildNotFoundError(NodeNotFoundError, KeyError):
    """A group has no node of this name; also a `KeyError`."""


class NodeExistsError(NodeError, FileExistsError):
    """The path of a new node has stored data. `overwrite=True` removes that data and creates the node."""


class NodeTypeError(NodeError):
    """The node is a group and not an array, or an array and not a group, or is below an array."""


class MetadataError(AiozarrError):
    """The base of errors about metadata documents.

    Attributes:
        node: the URL or path of the node.
        key: the key of the document.
        member: the member of the document, as a path such as `chunk_grid.configuration.chunk_shape`.
    """

    node: str | None = None
    key: str | None = None
    member: str | None = None

    def _facts(self) -> list[str]:
        facts: list[str] = []
        if self.node is not None:
            facts.append(f"node {self.node}")
        if self.key is not None:
            facts.append(f"key {self.key!r}")
        if self.member is not None:
            facts.append(f"member {self.member!r}")
        return facts


class InvalidMetadataError(MetadataError):
    """The document violates the specification of its format."""


class UnsupportedMetadataError(MetadataError):
    """The document is valid but uses a feature that aiozarr does not support: an unknown extension, codec or data type.

    Attributes:
        point: the extension point, such as `codec` or `data_type`.
        name: the unknown name.
    """

    point: str | None = None
    name: str | None = None


class MissingChunkError(AiozarrError):
    """A chunk is not stored and `Settings.missing_chunks` is `"raise"`.

    Attributes:
        store: the store's URL.
        key: the chunk's key.
    """

    store: str | None = None
    key: str | None = None


class SelectionError(AiozarrError, IndexError):
    """The selection does not fit the array: an index out of range, too many indices, a step of zero."""


class LimitError(AiozarrError):
    """The operation would exceed a limit of `Settings`; it allocated and fetched nothing.

    Attributes:
        limit: name of the setting.
        value: the requested amount.
        allowed: the largest allowed amount.
        store: the store's URL, if a stored value is too large.
        key: the key of that value.
        range: the requested byte range of it; None for all of it.
    """

    limit: str | None = None
    value: int | None = None
    allowed: int | None = None
    store: str | None = None
    key: str | None = None
    range: ByteRange | None = None

    def _facts(self) -> list[str]:
        return _location_facts(self.store, self.key, self.range)


class CodecError(AiozarrError):
    """Stored bytes could not be decoded as the metadata says, or values could not be encoded.

    Attributes:
        codec: the codec's name.
        store: the store's URL.
        key: the key of the object that contains the bytes.
        range: the byte range of the bytes in that object; None for all of it.
    """

    codec: str | None = None
    store: str | None = None
    key: str | None = None
    range: ByteRange | None = None

    def _facts(self) -> list[str]:
        codec = [] if self.codec is None else [f"codec {self.codec!r}"]
        return codec + _location_facts(self.store, self.key, self.range)


class ChecksumError(CodecError):
    """A stored checksum differs from the checksum of the stored bytes."""


class InvalidSpecError(AiozarrError):
    """A TensorStore JSON spec is not valid, or does not determine an array.

    Attributes:
        member: path of the member in the spec, such as `schema.chunk_layout.read_chunk.shape[0]`; None for the whole.
    """

    member: str | None = None

    def _facts(self) -> list[str]:
        return [] if self.member is None else [f"spec member {self.member}"]


class SpecMismatchError(AiozarrError):
    """The stored node does not satisfy the constraints of a TensorStore JSON spec.

    Attributes:
        member: path of the member in the spec with the constraint.
        expected: the constraint, as JSON.
        found: what is stored, as JSON; None if it is missing.
        url: the URL of the node; None if nothing was opened yet.
    """

    member: str | None = None
    expected: Any = None
    found: Any = None
    url: str | None = None

    def _facts(self) -> list[str]:
        facts = [] if self.member is None else [f"spec member {self.member}"]
        return facts if self.url is None else [*facts, self.url]


class CopyError(AiozarrError):
    """A copy could not be finished.

    Attributes:
        failed: the keys that were not copied, with the error of each.
    """

    failed: tuple[tuple[str, BaseException], ...] = ()


class UnsafeWriteWarning(UserWarning):
    """Partial chunk writes to this store are serialised within this process; another process may lose updates."""


class StaleDataWarning(UserWarning):
    """An array grew over stored values of an earlier, larger shape, and shows these values again.

    The v3 core specification requests this warning ("Resizing"). `resize(..., clear=True)` overwrites the values with
    the fill value.
    """
