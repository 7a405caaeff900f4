"""The records of a zip archive, its directory and the headers of its members, read with suspicion and written.

Everything here is a pure function of bytes. An archive is refused whole where one of its members is something that a
store cannot hold: a name that is no key, a name twice, a link, an encrypted member, members that overlap.
"""

from __future__ import annotations

import stat
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

from aiozarr.errors import InvalidKeyError, LimitError, StoreError, UnsupportedOperationError
from aiozarr.model import check_key

STORED, DEFLATED, BZIP2, LZMA = 0, 8, 12, 14

TAIL = 22 + 65535
"""Bytes at the end of an archive among which its end record begins: the record, and a comment behind it."""

LOCAL_HEADER = 30
MAX_DIRECTORY = 1 << 28
"""Bytes of a directory that are read: some millions of members."""

_END = struct.Struct("<4s4H2LH")
_END64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR = struct.Struct("<4sLQL")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_ENCRYPTED, _DESCRIPTOR, _UTF8 = 1, 8, 0x800
_SIGNED = b"PK\x05\x05"  # the directory's signature, behind its entries
_MAX16, _MAX32 = 0xFFFF, 0xFFFFFFFF
_DATE = (1 << 5) | 1  # 1980-01-01: the same values give the same archive


@dataclass(frozen=True, slots=True)
class Member:
    """One value of an archive.

    Attributes:
        key: its name.
        raw: the name as it is stored.
        offset: where its local header begins, in bytes from the start of the file.
        end: a bound on where its data ends: the next member's header, or the directory.
        method: how it is compressed.
        crc: the CRC-32 of its decompressed bytes.
        stored: compressed size in bytes.
        size: decompressed size in bytes.
        extra: bytes of the extra field in the directory; the header's own often has as many.
    """

    key: str
    raw: bytes
    offset: int
    end: int
    method: int
    crc: int
    stored: int
    size: int
    extra: int

    @property
    def likely_start(self) -> int:
        """Where its data begins in all archives but odd ones; `data_start` knows."""
        return self.offset + LOCAL_HEADER + len(self.raw) + self.extra

    def at(self, offset: int) -> Member:
        """Return the member as it is where its bytes, up to `end`, are moved to `offset`."""
        return replace(self, offset=offset, end=self.end - self.offset + offset)


@dataclass(frozen=True, slots=True)
class End:
    """Where the directory lies.

    Attributes:
        start: where it begins in the file.
        length: its bytes.
        count: the number of members.
        shift: bytes in front of the archive, which offsets do not count.
    """

    start: int
    length: int
    count: int
    shift: int


def damaged(reason: str, url: str, key: str | None = None) -> StoreError:
    """Return the error for an archive that is none, or holds what contradicts itself."""
    return StoreError(f"the zip archive is damaged: {reason}", store=url, key=key)


def find_end(tail: bytes, size: int, url: str) -> End | int:
    """Find the directory from the last bytes of an archive of `size` bytes.

    An int is the offset that `tail` has to begin at, where it holds too little for that.

    Raises:
        StoreError: there is none, or it lies outside the file.
        LimitError: it is larger than `MAX_DIRECTORY`.
    """
    base = size - len(tail)
    at = len(tail)
    while True:
        at = tail.rfind(b"PK\x05\x06", 0, at)
        if at < 0:
            raise StoreError("this is no zip archive: it has no end record", store=url)
        if at + _END.size <= len(tail):
            _, disk, first_disk, _, count, length, start, comment = _END.unpack_from(tail, at)
            if at + _END.size + comment == len(tail):
                break
    end = base + at
    locator = at - _LOCATOR.size
    if _MAX16 in (disk, count) or _MAX32 in (length, start):
        if locator < 0 and base > 0:
            return max(0, base - 4096)
        if locator >= 0 and tail[locator : locator + 4] == b"PK\x06\x07":
            _, _, position, _ = _LOCATOR.unpack_from(tail, locator)
            # Bytes in front of the archive shift it; writers put nothing between the record and its locator.
            record = locator - _END64.size
            if record < 0 and base > 0:
                return max(0, base - 4096)
            if record < 0 or tail[record : record + 4] != b"PK\x06\x06":
                raise damaged(f"no zip64 record lies at byte {position}", url)
            _, _, _, _, disk, first_disk, _, count, length, start = _END64.unpack_from(tail, record)
            end = base + record
    if disk or first_disk:
        raise UnsupportedOperationError("archives in several parts are not read", store=url)
    if length > MAX_DIRECTORY:
        raise LimitError(
            f"the directory of {url} has {length} bytes", limit="zip directory", value=length, allowed=MAX_DIRECTORY
        )
    shift = end - length - start
    if shift < 0 or count * _CENTRAL.size > length:
        raise damaged("its directory does not fit into the file", url)
    return End(start + shift, length, count, shift)


def read_directory(data: bytes, end: End, url: str) -> tuple[dict[str, Member], str | None]:
    """Return the members by key, from the bytes of the directory, and a name that occurs more than once, if one does.

    Of members of one name the last is returned. Entries of folders are left out.

    Raises:
        InvalidKeyError: a name is no key, such as `../a`.
        UnsupportedOperationError: a member is encrypted, a link, or compressed in a way that is not known.
        StoreError: anything contradicts itself.
    """
    members: dict[str, Member] = {}
    repeated: str | None = None
    for member in _entries(data, end, url):
        if member.key.endswith("/") and not member.size:
            continue
        check_key(member.key, store=url)
        if member.key in members:
            repeated = member.key
        members[member.key] = member
    return _bounded(members, end, url), repeated


def _bounded(members: dict[str, Member], end: End, url: str) -> dict[str, Member]:
    """Give each member the bound of the next one; where two overlap, few bytes could stand for very many."""
    following = end.start
    for member in sorted(members.values(), key=lambda each: each.offset, reverse=True):
        if member.offset + LOCAL_HEADER + len(member.raw) + member.stored > following:
            raise damaged("its bytes reach into what follows", url, member.key)
        members[member.key] = replace(member, end=following)
        following = member.offset
    return members


def _entries(data: bytes, end: End, url: str) -> Iterator[Member]:
    at = found = 0
    # All that is there: members beyond a number that is too small would be missing, and read as the fill value.
    while at < len(data) and data[at : at + 4] != _SIGNED:
        if at + _CENTRAL.size > len(data):
            raise damaged("its directory ends early", url)
        fields = _CENTRAL.unpack_from(data, at)
        signature, made_by, _, flags, method, _, _, crc, stored, size, named, extra, comment, _, _, mode, offset = (
            fields
        )
        if signature != b"PK\x01\x02":
            raise damaged("its directory has no entry where one should be", url)
        at += _CENTRAL.size
        raw, more = data[at : at + named], data[at + named : at + named + extra]
        at += named + extra + comment
        if at > len(data):
            raise damaged("its directory ends early", url)
        key = _decode(raw, flags, more, url)
        if _MAX32 in (size, stored, offset):
            size, stored, offset = _wide(more, size, stored, offset, url, key)
        if flags & _ENCRYPTED:
            raise UnsupportedOperationError("encrypted members are not read", store=url, key=key)
        if made_by >> 8 == 3 and stat.S_ISLNK(mode >> 16):
            raise UnsupportedOperationError("symbolic links in archives are not followed", store=url, key=key)
        if method not in (STORED, DEFLATED, BZIP2, LZMA):
            raise UnsupportedOperationError(f"compression method {method} is not known", store=url, key=key)
        if method == STORED and size != stored:
            raise damaged("its two sizes differ, and it is not compressed", url, key)
        # No byte of deflate stands for more than 1,032.
        if method == DEFLATED and size > 1032 * stored:
            raise damaged(f"{stored} bytes cannot decompress to {size}", url, key)
        found += 1
        yield Member(key, raw, offset + end.shift, 0, method, crc, stored, size, extra)
    # Writers without the records of zip64 let the number overflow.
    if (found - end.count) % (_MAX16 + 1):
        raise damaged(f"its directory has {found} entries, and says that there are {end.count}", url)


def _decode(raw: bytes, flags: int, extra: bytes, url: str) -> str:
    """Return a name: UTF-8 where a flag or a field says so, else code page 437."""
    try:
        if flags & _UTF8:
            return raw.decode()
        for kind, field in _fields(extra):
            if kind == 0x7075 and field[:5] == b"\x01" + zlib.crc32(raw).to_bytes(4, "little"):
                return field[5:].decode()
    except UnicodeDecodeError:
        raise InvalidKeyError(f"a name in the archive is not valid UTF-8: {raw[:200]!r}", store=url) from None
    return raw.decode("cp437")


def _fields(extra: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        yield kind, extra[at + 4 : at + 4 + length]
        at += 4 + length


def _wide(extra: bytes, size: int, stored: int, offset: int, url: str, key: str) -> tuple[int, int, int]:
    """Take from the zip64 field what does not fit into 32 bits."""
    field = next((field for kind, field in _fields(extra) if kind == 1), b"")
    values = []
    for value in (size, stored, offset):
        if value == _MAX32:
            if len(field) < 8:
                raise damaged("its zip64 sizes are missing", url, key)
            value, field = int.from_bytes(field[:8], "little"), field[8:]
        values.append(value)
    return values[0], values[1], values[2]


def data_start(header: bytes, member: Member, url: str) -> int:
    """Return where the data of `member` begins, from its local header with the name.

    Raises:
        StoreError: the header is another's, or the data would reach into what follows.
    """
    if len(header) < LOCAL_HEADER:
        raise damaged("its header ends early", url, member.key)
    fields = _LOCAL.unpack_from(header)
    signature, named, extra = fields[0], fields[-2], fields[-1]
    if signature != b"PK\x03\x04" or header[LOCAL_HEADER : LOCAL_HEADER + named] != member.raw:
        raise damaged("its header is not the one that the directory speaks of", url, member.key)
    start: int = member.offset + LOCAL_HEADER + named + extra
    if start + member.stored > member.end:
        raise damaged("its bytes reach into what follows", url, member.key)
    return start


# --- writing -----------------------------------------------------------------------------------------------------


def render_header(member: Member) -> bytes:
    """Return the local header of a member; `likely_start` is where its data then begins."""
    wide = struct.pack("<2H2Q", 1, 16, member.size, member.stored) if member.extra else b""
    sizes = (_MAX32, _MAX32) if wide else (member.stored, member.size)
    version, flags = _needs(member)
    head = (b"PK\x03\x04", version, flags, member.method, 0, _DATE, member.crc, *sizes, len(member.raw), len(wide))
    return _LOCAL.pack(*head) + member.raw + wide


def new_member(key: str, offset: int, method: int, crc: int, stored: int, size: int) -> Member:
    """Return the member that is about to be written at `offset`."""
    raw = key.encode()
    extra = 20 if max(size, stored) >= _MAX32 else 0
    end = offset + LOCAL_HEADER + len(raw) + extra + stored
    return Member(key, raw, offset, end, method, crc, stored, size, extra)


def render_directory(members: list[Member], start: int) -> Iterator[bytes]:
    """Yield the directory that lies at `start`, and the end record behind it."""
    length = 0
    for member in members:
        big = [value for value in (member.size, member.stored, member.offset) if value >= _MAX32]
        extra = struct.pack(f"<2H{len(big)}Q", 1, 8 * len(big), *big) if big else b""
        version, flags = _needs(member)
        extra += _unicode_name(member)
        entry = _CENTRAL.pack(
            *(b"PK\x01\x02", 3 << 8 | 45, version, flags, member.method, 0, _DATE, member.crc),
            *(min(member.stored, _MAX32), min(member.size, _MAX32), len(member.raw), len(extra), 0, 0, 0),
            *((stat.S_IFREG | 0o644) << 16, min(member.offset, _MAX32)),
        )
        length += len(entry) + len(member.raw) + len(extra)
        yield entry + member.raw + extra
    count = len(members)
    if count >= _MAX16 or length >= _MAX32 or start >= _MAX32:
        yield _END64.pack(b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, length, start)
        yield _LOCATOR.pack(b"PK\x06\x07", 0, start + length, 1)
    small = min(count, _MAX16)
    yield _END.pack(b"PK\x05\x06", 0, 0, small, small, min(length, _MAX32), min(start, _MAX32), 0)


def _needs(member: Member) -> tuple[int, int]:
    """Return the version of zip that reading a member needs, and its flags."""
    big = max(member.size, member.stored, member.offset) >= _MAX32
    # Code page 437 and ASCII differ in control characters too, and tools warn of names without the flag. A name that
    # another writer has put into a header in its own way stays there, and so does what it means.
    return (45 if big else 20), _UTF8 if member.raw == member.key.encode() else 0


def _unicode_name(member: Member) -> bytes:
    """Return the field that tells the key where neither UTF-8 nor code page 437 does."""
    name = member.key.encode()
    if member.raw == name or member.raw.decode("cp437") == member.key:
        return b""
    return struct.pack("<2HBL", 0x7075, 5 + len(name), 1, zlib.crc32(member.raw)) + name
