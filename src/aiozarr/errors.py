"""The exception tree: every error of aiozarr, with the node, key and range it speaks of as typed fields."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiozarr.model import ByteRange


class AiozarrError(Exception):
    """The base of all errors that aiozarr raises about data, stores and specifications.

    Programmer's mistakes in a call (a wrong keyword, a wrong type) stay `TypeError` and `ValueError`.
    """

    def __init__(self, message: str, **fields: Any) -> None:
        super().__init__(message)
        self.message = message
        for name, value in fields.items():
            setattr(self, name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        state = {name: value for name, value in self.__dict__.items() if name not in {"message", "__notes__"}}
        return (_rebuild, (type(self), self.message, state))

    def __str__(self) -> str:
        return self.message


def _rebuild(kind: type[AiozarrError], message: str, state: dict[str, Any]) -> AiozarrError:
    error = kind(message)
    error.__dict__.update(state)
    return error


class StoreError(AiozarrError):
    """A store could not do what was asked: the network, the disk or the server failed.

    Attributes:
        store: the store's URL, without secrets.
        key: the key that was asked for, if the operation names one.
        range: the byte range that was asked for; None for a whole value.
        attempts: how many times the request was sent.
        elapsed: seconds from the first try to this error.
        status: the HTTP status, where there was one.
        request_id: the server's own id of the request, where it gave one.
        retryable: True if the same request may succeed later; the scheduler repeats such requests.
        retry_after: seconds the server asked to wait, where it did.
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

    def __str__(self) -> str:
        facts: list[str] = []
        if self.store is not None:
            facts.append(f"store {self.store}")
        if self.key is not None:
            facts.append(f"key {self.key!r}")
        if self.range is not None:
            facts.append(str(self.range))
        if self.status is not None:
            facts.append(f"status {self.status}")
        if self.attempts > 1:
            facts.append(f"{self.attempts} attempts")
        if self.elapsed is not None:
            facts.append(f"{self.elapsed:.1f} s")
        if self.request_id is not None:
            facts.append(f"request id {self.request_id}")
        return f"{self.message} ({', '.join(facts)})" if facts else self.message


class PreconditionFailedError(StoreError):
    """A conditional write found another version, or a value where none should be. Read again, then decide."""


class PermissionDeniedError(StoreError):
    """The store knows who asks and refuses (403). It is never read as a missing chunk."""


class UnauthenticatedError(StoreError):
    """The store does not accept the credentials (401, an unknown key, an expired token that could not be renewed)."""


class UnsupportedOperationError(StoreError):
    """This store cannot do this operation; `store.supports` says what it can."""


class UnknownSchemeError(UnsupportedOperationError, ValueError):
    """No store of this version opens such URLs; the message names the schemes that are known."""


class InvalidKeyError(StoreError):
    """The key or prefix is not a valid store key (see `aiozarr.stores.check_key`)."""


class ThrottledError(StoreError):
    """The server asked for less (429, 503) on every try."""

    retryable = True


class StoreTimeoutError(StoreError, TimeoutError):
    """No progress for `Settings.idle_timeout`, or the operation's deadline has passed."""

    retryable = True


class ShortReadError(StoreError):
    """Fewer bytes came than were announced or asked for."""

    retryable = True


class ChangedError(StoreError):
    """The object was replaced while its parts were being read. Read again from the start."""


class OutcomeUnknownError(StoreError):
    """The answer to a conditional write was lost, and what is stored cannot tell whether it took place."""


class ForkedProcessError(StoreError):
    """A client library of the parent process cannot be used after a fork. Open the store again in the child."""


class EraseError(StoreError):
    """Some of several keys could not be removed; all others were.

    Attributes:
        failures: for each key that is left, why.
    """

    failures: Mapping[str, StoreError] = MappingProxyType({})

    @classmethod
    def of(cls, failures: Mapping[str, StoreError], store: str) -> EraseError:
        """Return the error of `failures`, of which there is at least one; it speaks of the first."""
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
    """What the errors about nodes of a hierarchy share.

    Attributes:
        url: the canonical URL of the node.
        path: the node's path inside its hierarchy.
    """

    url: str | None = None
    path: str | None = None


class NodeNotFoundError(NodeError, FileNotFoundError):
    """There is no array and no group at this place."""

    # OSError.__str__ would print errno fields; the message is ours.
    __str__ = AiozarrError.__str__


class NodeExistsError(NodeError):
    """Something is stored where a node was to be created. Pass `overwrite=True` to replace it."""


class NodeTypeError(NodeError):
    """A group where an array was asked for, an array where a group was, or a node below an array."""


class MetadataError(AiozarrError):
    """What the errors about metadata documents share.

    Attributes:
        node: the URL or path of the node.
        key: the key of the document.
        member: the member of the document, as a path such as `chunk_grid.configuration.chunk_shape`.
    """

    node: str | None = None
    key: str | None = None
    member: str | None = None

    def __str__(self) -> str:
        facts: list[str] = []
        if self.node is not None:
            facts.append(f"node {self.node}")
        if self.key is not None:
            facts.append(f"key {self.key!r}")
        if self.member is not None:
            facts.append(f"member {self.member!r}")
        return f"{self.message} ({', '.join(facts)})" if facts else self.message


class InvalidMetadataError(MetadataError):
    """The document is not what the format allows."""


class UnsupportedMetadataError(MetadataError):
    """The format allows it, and aiozarr does not do it: an unknown extension, codec or data type.

    Attributes:
        point: the extension point, such as `codec` or `data_type`.
        name: the name that is not known.
    """

    point: str | None = None
    name: str | None = None


class MissingChunkError(AiozarrError):
    """A chunk is not stored, and `Settings.missing` is `"raise"`.

    Attributes:
        store: the store's URL.
        key: the chunk's key.
    """

    store: str | None = None
    key: str | None = None


class SelectionError(AiozarrError, IndexError):
    """The selection does not fit the array: out of range, too many indices, a step of zero."""


class LimitError(AiozarrError):
    """A limit of `Settings` would be passed; nothing was allocated or fetched for it.

    Attributes:
        limit: the name of the limit.
        value: what was asked for.
        allowed: what the limit allows.
    """

    limit: str | None = None
    value: int | None = None
    allowed: int | None = None


class CodecError(AiozarrError):
    """Stored bytes do not decode to what the metadata says, or values could not be encoded.

    Attributes:
        codec: the codec's name.
        store: the store's URL.
        key: the key of the object that holds the bytes.
        range: the byte range of the bytes in that object; None for all of it.
    """

    codec: str | None = None
    store: str | None = None
    key: str | None = None
    range: ByteRange | None = None

    def __str__(self) -> str:
        facts: list[str] = []
        if self.codec is not None:
            facts.append(f"codec {self.codec!r}")
        if self.store is not None:
            facts.append(f"store {self.store}")
        if self.key is not None:
            facts.append(f"key {self.key!r}")
        if self.range is not None:
            facts.append(str(self.range))
        return f"{self.message} ({', '.join(facts)})" if facts else self.message


class ChecksumError(CodecError):
    """A checksum does not match its bytes."""


class InvalidSpecError(AiozarrError):
    """A TensorStore JSON spec is not valid."""


class SpecMismatchError(AiozarrError):
    """What is stored does not fit the constraints of a TensorStore JSON spec."""


class CopyError(AiozarrError):
    """A copy could not be finished.

    Attributes:
        failed: the keys that were not copied, with the error of each.
    """

    failed: tuple[tuple[str, BaseException], ...] = ()


class UnsafeWriteWarning(UserWarning):
    """Partial chunk writes to this store are serialised in this process only; another process may lose updates."""


class StaleDataWarning(UserWarning):
    """An array has grown over values that an earlier, larger shape has left; they are visible again.

    The v3 core specification asks for this signal ("Resizing"). `resize(..., clear=True)` makes them the fill value.
    """
