"""What exceptions of file systems mean, each as its own package raises it."""

from __future__ import annotations

import asyncio
import errno
import ftplib
from collections.abc import Callable, Iterator
from typing import Any

import aiohttp
import botocore.exceptions
import gcsfs.retry
import google.auth.exceptions
import numpy as np
import pytest
import requests
from fsspec import AbstractFileSystem
from fsspec.implementations.ftp import FTPFileSystem
from multidict import CIMultiDict, CIMultiDictProxy
from s3fs.errors import translate_boto_error
from yarl import URL

from aiozarr.errors import (
    PermissionDeniedError,
    ShortReadError,
    StoreError,
    StoreTimeoutError,
    ThrottledError,
    UnauthenticatedError,
    UnsupportedOperationError,
)
from aiozarr.model import Entry, Range, Suffix
from aiozarr.stores.fsspec.errors import is_missing_file, translate
from aiozarr.stores.fsspec.store import FsspecStore
from tests.support.fsspec_file_systems import AsyncFiles
from tests.support.servers.http_server import FaultServer


def of_s3(status: int, code: str, **headers: str) -> Exception:
    told = {"HTTPStatusCode": status, "HTTPHeaders": {"x-amz-request-id": "ID", **headers}}
    response = {"Error": {"Code": code, "Message": "m"}, "ResponseMetadata": told}
    error: Exception = translate_boto_error(botocore.exceptions.ClientError(response, "GetObject"))
    return error


def of_aiohttp(status: int, **headers: str) -> aiohttp.ClientResponseError:
    url = URL("http://h/x?hidden=1")
    request = aiohttp.RequestInfo(url, "GET", CIMultiDictProxy(CIMultiDict()), url)
    return aiohttp.ClientResponseError(request, (), status=status, message="m", headers=CIMultiDict(headers))


def of_requests(status: int) -> Exception:
    response = requests.Response()
    response.status_code = status
    return requests.HTTPError("m", response=response)


def because_of(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "kind", "status", "retryable"),
    [
        (of_s3(503, "SlowDown"), ThrottledError, 503, True),
        (of_s3(500, "InternalError"), StoreError, 500, True),
        (of_s3(403, "AccessDenied"), PermissionDeniedError, 403, False),
        (of_s3(400, "ExpiredToken"), UnauthenticatedError, 400, False),
        (of_s3(404, "NoSuchBucket"), StoreError, 404, False),
        (of_s3(501, "NotImplemented"), UnsupportedOperationError, 501, False),
        (of_aiohttp(429), ThrottledError, 429, True),
        (of_aiohttp(401), UnauthenticatedError, 401, False),
        (of_aiohttp(502), StoreError, 502, True),
        (because_of(FileNotFoundError("x"), of_aiohttp(403)), PermissionDeniedError, 403, False),
        (gcsfs.retry.HttpError({"code": 503, "message": "m"}), ThrottledError, 503, True),
        (gcsfs.retry.HttpError({"code": "500", "message": "m"}), StoreError, 500, True),
        (OSError("Forbidden: https://h/b/x\nhidden"), PermissionDeniedError, 403, False),
        (of_requests(404), StoreError, 404, False),
        (of_requests(504), StoreError, 504, True),
        (botocore.exceptions.NoCredentialsError(), UnauthenticatedError, None, False),
        (google.auth.exceptions.RefreshError("hidden"), UnauthenticatedError, None, False),
        (botocore.exceptions.EndpointConnectionError(endpoint_url="http://hidden"), StoreError, None, True),
        (botocore.exceptions.ReadTimeoutError(endpoint_url="http://hidden"), StoreTimeoutError, None, True),
        (requests.ConnectionError("hidden"), StoreError, None, True),
        (requests.Timeout("hidden"), StoreTimeoutError, None, True),
        (aiohttp.ClientPayloadError("hidden"), ShortReadError, None, True),
        (aiohttp.ServerDisconnectedError(), StoreError, None, True),
        (asyncio.IncompleteReadError(b"", 5), ShortReadError, None, True),
        (TimeoutError(), StoreTimeoutError, None, True),
        (EOFError(), StoreError, None, True),
        (ConnectionResetError(), StoreError, None, True),
        (PermissionError("hidden"), PermissionDeniedError, None, False),
        (FileNotFoundError("hidden"), StoreError, None, False),
        (NotImplementedError(), UnsupportedOperationError, None, False),
        (OSError(errno.EBUSY, "hidden"), ThrottledError, None, True),
        (OSError(errno.ENOSPC, "hidden"), StoreError, None, False),
        (ValueError("hidden"), StoreError, None, False),
    ],
    ids=repr,
)
def test_an_exception_becomes_the_error_that_it_means_and_its_words_are_not_repeated(
    error: Exception, kind: type[StoreError], status: int | None, retryable: bool
) -> None:
    found = translate(error)
    assert type(found) is kind
    assert (found.status, found.retryable) == (status, retryable)
    assert "hidden" not in str(found)


def test_an_error_has_the_request_id_and_retry_delay_of_the_server() -> None:
    found = translate(of_s3(503, "SlowDown", **{"retry-after": "7"}))
    assert (found.request_id, found.retry_after) == ("ID", 7.0)
    assert translate(of_aiohttp(503, **{"Retry-After": "3"})).retry_after == 3.0


@pytest.mark.parametrize(
    ("error", "missing"),
    [
        (FileNotFoundError(), True),
        (IsADirectoryError(), True),
        (NotADirectoryError(), True),
        (of_s3(404, "NoSuchKey"), True),
        (because_of(FileNotFoundError(), KeyError()), True),
        (because_of(FileNotFoundError(), FileNotFoundError()), True),
        (because_of(FileNotFoundError(), of_aiohttp(404)), True),
        (of_s3(404, "NoSuchBucket"), False),
        (because_of(FileNotFoundError(), of_aiohttp(403)), False),
        (because_of(FileNotFoundError(), of_aiohttp(500)), False),
        (because_of(FileNotFoundError(), aiohttp.ClientConnectionError()), False),
        (because_of(FileNotFoundError(), ftplib.error_perm("550 x: No such file or directory")), True),
        (because_of(FileNotFoundError(), ftplib.error_perm("550 Not a directory.")), True),
        (because_of(FileNotFoundError(), ftplib.error_perm("550 The system cannot find the file specified.")), True),
        (because_of(FileNotFoundError(), ftplib.error_perm("550 x: Permission denied")), False),
        (because_of(FileNotFoundError(), ftplib.error_perm("550 No such file or no access")), False),
        (because_of(FileNotFoundError(), ftplib.error_perm("550 Failed to open file.")), False),
        (because_of(FileNotFoundError(), ftplib.error_perm("530 User not found")), False),
        (because_of(FileNotFoundError(), ftplib.error_temp("450 No such file, try later")), False),
        (because_of(FileNotFoundError(), StopIteration()), False),
        (because_of(FileNotFoundError(), TimeoutError()), False),
        (PermissionError(), False),
        (OSError(), False),
        (KeyError(), False),
    ],
    ids=repr,
)
def test_other_errors_are_not_missing_files(error: Exception, missing: bool) -> None:
    assert is_missing_file(error) is missing


async def test_an_unreachable_server_is_not_a_missing_value() -> None:
    with FaultServer() as gone:
        store = FsspecStore(gone.url)
    for operation in (store.get, store.stat, store.exists):
        with pytest.raises(StoreError) as caught:
            await operation("a")
        assert caught.value.retryable
        assert (caught.value.store, caught.value.key) == (gone.url, "a")


class Failing(AsyncFiles):
    """Fails, or comes short, as `how` says."""

    protocol = "failing"

    async def _cat_file(self, path, start=None, end=None, **_):
        data = await super()._cat_file(path, start, end)
        if path.endswith("denied"):
            raise PermissionError(path)
        return data[:-1] if path.endswith("short") else data


async def test_fewer_bytes_than_the_file_has_in_the_range_are_a_short_read() -> None:
    store = FsspecStore(Failing(space="failing"))
    await store.set("short", b"0123456789")
    await store.set("denied", b"0123456789")
    for part in (Range(2, 5), Range(2), Range(2, 500), Suffix(3)):
        with pytest.raises(ShortReadError) as caught:
            await store.fetch("short", part)
        assert (caught.value.key, caught.value.range, caught.value.retryable) == ("short", part, True)
    with pytest.raises(PermissionDeniedError):
        await store.fetch("denied")


class Answering(AbstractFileSystem):
    """Blocks, and answers as it is told."""

    protocol = "answering"
    cachable = False

    def __init__(self, answer: Any, size: Any = 6) -> None:
        super().__init__()
        self.answer, self.size = answer, size

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        return {"name": path, "size": self.size, "type": "file"}

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        return [{"name": f"{path}/k", "size": self.size, "type": "file"}]


@pytest.mark.parametrize("wrapped", [False, True])
async def test_an_error_of_ours_that_comes_from_below_keeps_its_own_cause(wrapped: bool) -> None:
    reason = ValueError("why")

    class Failing(AbstractFileSystem):
        protocol = "failing"
        cachable = False

        def cat_file(self, path: str, **_: Any) -> bytes:
            try:
                raise ThrottledError("less, please", retryable=True) from reason
            except StoreError as error:
                if wrapped:
                    raise OSError("of the file system") from error
                raise

    with pytest.raises(ThrottledError) as caught:
        await FsspecStore(Failing(), path="r").fetch("k")
    assert caught.value.__cause__ is reason
    assert caught.value.key == "k"


class FtpServer:
    """What ftplib makes of a server with these files; `hidden` ones are in no listing, `refusal` answers all reads."""

    def __init__(self, files: dict[str, bytes], hidden: tuple[str, ...] = (), refusal: str = "") -> None:
        self.files, self.hidden, self.refusal = files, hidden, refusal

    def mlsd(self, path: str) -> Iterator[tuple[str, dict[str, str]]]:
        above = f"/{path.strip('/')}/".replace("//", "/")
        names = [name for name in self.files if name.startswith(above)]
        if not names:
            raise ftplib.error_perm("550 No such file or directory.")
        for name in names:
            rest, slash, _ = name[len(above) :].partition("/")
            if name not in self.hidden:
                yield rest, {"type": "dir"} if slash else {"type": "file", "size": str(len(self.files[name]))}

    def dir(self, path: str, take: Callable[[str], None]) -> None:
        raise ftplib.error_perm("550 No such file or directory.")

    def retrbinary(self, command: str, callback: Callable[[bytes], None], rest: int | None = None, **_: Any) -> None:
        data = self.files.get(command.removeprefix("RETR "))
        if self.refusal or data is None:
            raise ftplib.error_perm(self.refusal or "550 No such file or directory.")
        callback(data[rest or 0 :])

    def delete(self, path: str) -> None:
        if self.files.pop(path, None) is None:
            raise ftplib.error_perm("550 No such file or directory.")

    def rmd(self, path: str) -> None:
        raise ftplib.error_perm("550 Directory not empty.")

    def close(self) -> None: ...


def over_ftp(server: FtpServer) -> FsspecStore:
    class Files(FTPFileSystem):
        cachable = False

        def _connect(self) -> None:
            self.ftp = server

    return FsspecStore(Files("h"), path="/data")


@pytest.mark.parametrize("key", ["a/x", "x/y", "a", "x"])
async def test_over_ftp_a_missing_file_is_none(key: str) -> None:
    store = over_ftp(FtpServer({"/data/a/b": b"12345"}))
    for byte_range in (None, Range(1), Range(1, 2), Range(9, 2), Suffix(2)):
        assert await store.fetch(key, byte_range) is None
    assert await store.stat(key) is None
    await store.erase(key)
    assert [entry.key async for entry in store.scan("x/")] == []
    assert await store.list_dir("x/") == ([], [])
    assert await store.list() == ["a/b"]
    await store.erase("a/b")
    assert await store.get("a/b") is None


async def test_over_ftp_a_file_that_may_not_be_read_or_is_not_listed_is_not_missing() -> None:
    store = over_ftp(FtpServer({"/data/a/b": b"12345"}, refusal="550 Permission denied."))
    for byte_range in (None, Range(1, 2), Suffix(2)):
        with pytest.raises(StoreError):
            await store.fetch("a/b", byte_range)
    hidden = over_ftp(FtpServer({"/data/a/.b": b"12345", "/data/a/c": b""}, hidden=("/data/a/.b",)))
    assert await hidden.get("a/.b") == b"12345"
    assert await hidden.stat("a/.b") == Entry("a/.b", 5)
    with pytest.raises(StoreError):
        await hidden.fetch("a/.b", Range(1, 2))
    refused = over_ftp(FtpServer({"/data/a/c": b""}, refusal="550 Failed to open file."))
    for ask in (refused.fetch("a/.b", Suffix(2)), refused.stat("a/.b"), refused.erase("a/.b")):
        with pytest.raises(StoreError):
            await ask


class Broken(Exception):
    @property
    def status(self) -> int:
        raise ZeroDivisionError


@pytest.mark.parametrize("answer", ["text", None, [1], np.arange(12)[::2]])
@pytest.mark.parametrize("wanted", [None, Range(0, 4), Suffix(2)])
async def test_other_objects_than_bytes_are_errors(answer: Any, wanted: Range | Suffix | None) -> None:
    with pytest.raises(StoreError, match=type(answer).__name__):
        await FsspecStore(Answering(answer), path="r").fetch("k", wanted)


async def test_views_of_wider_items_are_counted_in_bytes() -> None:
    store = FsspecStore(Answering(memoryview(np.arange(3, dtype="<u2"))), path="r")
    value = await store.fetch("k")
    assert value is not None
    assert (bytes(value.data), value.size) == (b"\0\0\1\0\2\0", 6)
    part = await store.fetch("k", Range(2, 2))
    assert part is not None
    assert bytes(part.data) == b"\1\0"


@pytest.mark.parametrize("error", [StopIteration(), asyncio.CancelledError(), Broken()], ids=repr)
async def test_odd_exceptions_of_blocking_file_systems_are_errors_of_the_store(error: BaseException) -> None:
    async with asyncio.timeout(10):
        with pytest.raises(StoreError):
            await FsspecStore(Answering(error), path="r").get("k")


@pytest.mark.parametrize(
    ("told", "size"), [("6", 6), (6.0, 6), (-1, None), (None, None), (float("nan"), None), ("some", None)]
)
async def test_sizes_are_numbers_or_not_known(told: Any, size: int | None) -> None:
    store = FsspecStore(Answering(b"", told), path="r")
    assert await store.stat("k") == Entry("k", size)
    assert [entry async for entry in store.scan()] == [Entry("k", size)]
