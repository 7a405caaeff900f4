"""Parses the records of a zip archive: its directory, and the headers of its members.

All functions are pure. A member that cannot be read, such as a link or an encrypted one, is refused when it is read, so
that it does not hide the others. Members whose names are not valid keys are left out.
"""

from __future__ import annotations

import stat
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

from aiozarr.errors import InvalidKeyError, LimitError, StoreError, UnsupportedOperationError
from aiozarr.model import check_key

STORED, DEFLATED = 0, 8
_OTHER_METHODS = {9: "Deflate64", 12: "bzip2", 14: "LZMA", 93: "Zstandard", 95: "XZ"}

MAX_END_BYTES = 22 + 65535
"""The end record begins within this many bytes of the end: the record, and the longest comment after it."""

LOCAL_HEADER_BYTES = 30
MAX_DIRECTORY_BYTES = 1 << 28
"""The largest directory that is read: some millions of members."""

_END = struct.Struct("<4s4H2LH")
_END64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR = struct.Struct("<4sLQL")
_CENTRAL = struct.Struct("<4sH2x2H4x3L3H4x2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_ENCRYPTED, _UTF8 = 1, 0x800
_SIGNED = b"PK\x05\x05"  # the directory's signature, after its entries
_MAX16, _MAX32 = 0xFFFF, 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Member:
    """One value of an archive.

    Attributes:
        key: name of the member.
        raw: the name as it is stored.
        offset: offset of its local header in the file.
        end: upper bound of the end of its data: the next member's header, or the directory.
        method: compression method.
        crc: CRC-32 of the decompressed bytes.
        packed_size: compressed size in bytes.
        size: decompressed size in bytes.
        extra: bytes of the extra field in the directory; the header's own often has as many.
        fault: why it cannot be read, or None.
    """

    key: str
    raw: bytes
    offset: int
    end: int
    method: int
    crc: int
    packed_size: int
    size: int
    extra: int
    fault: str | None = None

    def check_readable(self, url: str) -> None:
        """Check that the member can be read.

        Raises:
            UnsupportedOperationError: it is encrypted, a link, or of an unknown compression method.
            StoreError: its sizes contradict each other.
        """
        if self.fault is not None:
            raise UnsupportedOperationError(self.fault, store=url, key=self.key)
        if self.method == STORED and self.size != self.packed_size:
            raise damaged("its two sizes differ although it is not compressed", url, self.key)
        # A byte of deflate decompresses to at most 1,032 bytes.
        if self.method == DEFLATED and self.size > 1032 * self.packed_size:
            raise damaged(f"{self.packed_size} bytes cannot decompress to {self.size}", url, self.key)

    @property
    def likely_start(self) -> int:
        """The usual offset of its data; `find_data_start` returns the actual one."""
        return self.offset + LOCAL_HEADER_BYTES + len(self.raw) + self.extra


@dataclass(frozen=True, slots=True)
class EndRecord:
    """The location of the directory.

    Attributes:
        start: its offset in the file.
        length: its size in bytes.
        count: number of members.
        shift: bytes before the archive, which are not part of its offsets.
    """

    start: int
    length: int
    count: int
    shift: int


def damaged(reason: str, url: str, key: str | None = None) -> StoreError:
    """Return the error for a damaged archive."""
    return StoreError(f"the zip archive is damaged: {reason}", store=url, key=key)


def find_end(tail: bytes, size: int, url: str) -> EndRecord | int:
    """Find the directory from the last bytes of an archive of `size` bytes.

    Returns: the end record, or the offset from which `tail` is needed if it is too short.

    Raises:
        StoreError: the file has no central directory, or its position is outside the file.
        LimitError: the directory is larger than `MAX_DIRECTORY_BYTES`.
    """
    base = size - len(tail)
    at = found = len(tail)
    last = -1
    while True:
        found = tail.rfind(b"PK\x05\x06", 0, found)
        if found < 0:
            break
        excess = len(tail) - found - _END.size
        if excess >= 0:
            # Some writers leave bytes behind the end, where the last record counts.
            last = max(last, found)
            if _END.unpack_from(tail, found)[-1] == excess:
                last = found
                break
    if last < 0:
        raise StoreError("not a zip archive: it has no end record", store=url)
    at = last
    _, disk, first_disk, _, count, length, start, _ = _END.unpack_from(tail, at)
    end = base + at
    locator = at - _LOCATOR.size
    if _MAX16 in (disk, count) or _MAX32 in (length, start):
        if locator < 0 and base > 0:
            return max(0, base - 4096)
        if locator >= 0 and tail[locator : locator + 4] == b"PK\x06\x07":
            _, _, position, _ = _LOCATOR.unpack_from(tail, locator)
            # Bytes before the archive shift the record; writers put nothing between the record and its locator.
            record = locator - _END64.size
            if record < 0 and base > 0:
                return max(0, base - 4096)
            if record < 0 or tail[record : record + 4] != b"PK\x06\x06":
                raise damaged(f"there is no zip64 record at byte {position}", url)
            _, _, _, _, disk, first_disk, _, count, length, start = _END64.unpack_from(tail, record)
            end = base + record
    if disk or first_disk:
        raise UnsupportedOperationError("archives in several parts are not supported", store=url)
    if length > MAX_DIRECTORY_BYTES:
        raise LimitError(
            f"the directory of {url} has {length} bytes",
            limit="zip directory",
            value=length,
            allowed=MAX_DIRECTORY_BYTES,
        )
    shift = end - length - start
    if shift < 0 or count * _CENTRAL.size > length:
        raise damaged("its directory exceeds the file", url)
    return EndRecord(start + shift, length, count, shift)


def read_directory(data: bytes, end: EndRecord, url: str) -> tuple[dict[str, Member], str | None]:
    """Return the members by key, and a name that occurs more than once, or None, from the bytes of the directory.

    Of several members of one name the last is returned. Entries of directories are skipped, and so are names that are
    not valid keys, such as `../a`.

    Raises:
        StoreError: the directory is inconsistent.
    """
    members: dict[str, Member] = {}
    repeated: str | None = None
    for member in _entries(data, end, url):
        if member.key.endswith("/") and not member.size:
            continue
        try:
            check_key(member.key, store=url)
        except InvalidKeyError:
            continue
        if member.key in members:
            repeated = member.key
        members[member.key] = member
    return _with_bounds(members, end, url), repeated


def _with_bounds(members: dict[str, Member], end: EndRecord, url: str) -> dict[str, Member]:
    """Set the bound `end` of each member. Overlaps are refused: a few bytes could decompress to very many."""
    following = end.start
    for member in sorted(members.values(), key=lambda each: each.offset, reverse=True):
        if member.offset + LOCAL_HEADER_BYTES + len(member.raw) + member.packed_size > following:
            raise damaged("its bytes overlap the next record", url, member.key)
        members[member.key] = replace(member, end=following)
        following = member.offset
    return members


def _entries(data: bytes, end: EndRecord, url: str) -> Iterator[Member]:
    at = found = 0
    # All entries, also beyond their declared number: chunks in skipped members would read as the fill value.
    while at < len(data) and data[at : at + 4] != _SIGNED:
        if at + _CENTRAL.size > len(data):
            raise damaged("its directory ends early", url)
        signature, made_by, flags, method, crc, packed_size, size, named, extra, comment, mode, offset = (
            _CENTRAL.unpack_from(data, at)
        )
        if signature != b"PK\x01\x02":
            raise damaged("its directory has an invalid entry", url)
        at += _CENTRAL.size
        raw, more = data[at : at + named], data[at + named : at + named + extra]
        at += named + extra + comment
        if at > len(data):
            raise damaged("its directory ends early", url)
        key = _decode(raw, flags, more)
        if _MAX32 in (size, packed_size, offset):
            size, packed_size, offset = _wide(more, size, packed_size, offset, url, key)
        found += 1
        fault = None
        if flags & _ENCRYPTED:
            fault = "encrypted members are not read"
        elif made_by >> 8 == 3 and stat.S_ISLNK(mode >> 16):
            fault = "symbolic links in archives are not followed"
        elif method not in (STORED, DEFLATED):
            name = _OTHER_METHODS.get(method, f"the unknown method {method}")
            fault = f"members compressed by {name} are not read; write the archive again with deflate or uncompressed"
        yield Member(key, raw, offset + end.shift, 0, method, crc, packed_size, size, extra, fault)
    # In archives of writers without zip64 records the number overflows.
    if (found - end.count) % (_MAX16 + 1):
        raise damaged(f"its directory has {found} entries but announces {end.count}", url)


def _decode(raw: bytes, flags: int, extra: bytes) -> str:
    """Decode a name: as UTF-8 if a flag or a field declares it, otherwise as code page 437.

    Bytes that are not UTF-8 become lone surrogates, which no key has.
    """
    if flags & _UTF8:
        return raw.decode(errors="surrogateescape")
    for kind, field in _fields(extra):
        if kind == 0x7075 and field[:5] == b"\x01" + zlib.crc32(raw).to_bytes(4, "little"):
            return field[5:].decode(errors="surrogateescape")
    return raw.decode("cp437")


def _fields(extra: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        yield kind, extra[at + 4 : at + 4 + length]
        at += 4 + length


def _wide(extra: bytes, size: int, packed_size: int, offset: int, url: str, key: str) -> tuple[int, int, int]:
    """Return the sizes and the offset; those that do not fit into 32 bits are in the zip64 field."""
    field = next((field for kind, field in _fields(extra) if kind == 1), b"")
    values = []
    for value in (size, packed_size, offset):
        if value == _MAX32:
            if len(field) < 8:
                raise damaged("its zip64 sizes are missing", url, key)
            value, field = int.from_bytes(field[:8], "little"), field[8:]
        values.append(value)
    return values[0], values[1], values[2]


def find_data_start(header: bytes, member: Member, url: str) -> int:
    """Return the offset of the data of `member`, from its local header with the name.

    Raises:
        StoreError: the header belongs to another member, or the data would overlap the next record.
    """
    if len(header) < LOCAL_HEADER_BYTES:
        raise damaged("its header ends early", url, member.key)
    fields = _LOCAL.unpack_from(header)
    signature, named, extra = fields[0], fields[-2], fields[-1]
    if signature != b"PK\x03\x04" or header[LOCAL_HEADER_BYTES : LOCAL_HEADER_BYTES + named] != member.raw:
        raise damaged("its header differs from the directory", url, member.key)
    start: int = member.offset + LOCAL_HEADER_BYTES + named + extra
    if start + member.packed_size > member.end:
        raise damaged("its bytes overlap the next record", url, member.key)
    return start
