"""Reads through the client library give the answers that the lane gives."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

from aiozarr.errors import ChangedError, StoreError, StoreTimeoutError, UnauthenticatedError
from aiozarr.model import Range
from aiozarr.stores.azure import through
from aiozarr.stores.azure.access import Access
from aiozarr.stores.azure.address import AzurePlace
from aiozarr.stores.azure.client import make_client
from aiozarr.stores.lane import Accept, Answer, Want
from aiozarr.stores.options.azure import AzureOptions
from aiozarr.testing import http_replies as spoil
from aiozarr.testing.http_server import FaultServer

if TYPE_CHECKING:
    from obstore.store import AzureStore

DATA = bytes(range(256)) * 100
DOCUMENT = b"<Error><Code>%s</Code><Message>Words</Message></Error>"


@pytest.fixture
async def server() -> AsyncIterator[FaultServer]:
    """A server with one blob."""
    with FaultServer({"acct/data/a": DATA}) as running:
        yield running


def client(server: FaultServer) -> AzureStore:
    place = AzurePlace("data", "acct", f"{server.url}/acct", azure=False)
    access = Access("key", base64.b64encode(b"key").decode())
    return make_client(place, AzureOptions(), access, None, 5.0)


async def ask(server: FaultServer, method: str, want: Want, key: str = "a", *, seconds: float = 5.0) -> Answer:
    return await through.ask(client(server), method, key, want, seconds)


async def test_a_get_brings_bytes_size_and_version(server: FaultServer) -> None:
    answer = await ask(server, "GET", Want(raw=True))
    assert isinstance(answer.verdict, Accept)
    assert (bytes(answer.body), answer.verdict.size, answer.headers[b"etag"]) == (DATA, len(DATA), b'"1"')


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [(Range(5, 10), DATA[5:15]), (Range(25_000), DATA[25_000:]), (Range(25_590, 100), DATA[25_590:])],
)
async def test_a_range_is_the_range_that_was_asked_for(server: FaultServer, wanted: Range, expected: bytes) -> None:
    answer = await ask(server, "GET", Want(wanted, '"1"'))
    assert isinstance(answer.verdict, Accept)
    assert (bytes(answer.body), answer.verdict.size) == (expected, len(DATA))
    assert server.requests[0].headers["if-match"] == '"1"'


async def test_a_head_brings_size_and_version_in_one_request(server: FaultServer) -> None:
    answer = await ask(server, "HEAD", Want(head=True))
    assert isinstance(answer.verdict, Accept)
    assert (answer.verdict.size, answer.headers[b"etag"]) == (len(DATA), b'"1"')
    assert len(server.requests) == 1


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("code", [b"BlobNotFound", b"ContainerNotFound"])
async def test_what_is_missing_is_told_by_a_code(server: FaultServer, method: str, code: bytes) -> None:
    server.script = spoil.always(spoil.status(404, DOCUMENT % code))
    answer = await ask(server, method, Want(head=method == "HEAD"))
    assert (answer.status, answer.headers[b"x-ms-error-code"]) == (404, code)


@pytest.mark.parametrize(
    ("status", "code"), [(403, b"AuthenticationFailed"), (412, b"ConditionNotMet"), (416, b"InvalidRange")]
)
async def test_a_refusal_is_an_answer_with_status_and_code(server: FaultServer, status: int, code: bytes) -> None:
    server.script = spoil.always(spoil.status(status, DOCUMENT % code))
    answer = await ask(server, "GET", Want())
    assert (answer.status, answer.headers[b"x-ms-error-code"]) == (status, code)
    assert not isinstance(answer.verdict, Accept)
    assert len(server.requests) == 1


async def test_another_version_than_expected_is_a_changed_error_where_the_server_does_not_notice(
    server: FaultServer,
) -> None:
    for method, weak in (("GET", 'W/"other"'), ("HEAD", '"other"')):
        with pytest.raises(ChangedError):
            await ask(server, method, Want(etag=weak, head=method == "HEAD"))


async def test_no_answer_is_an_error_in_time(server: FaultServer) -> None:
    server.script = spoil.always(spoil.no_answer)
    with pytest.raises(StoreTimeoutError):
        await ask(server, "GET", Want(), seconds=0.05)


async def test_a_connection_that_ends_within_the_body_is_an_error(server: FaultServer) -> None:
    server.script = spoil.always(spoil.reset_in_body(100))
    with pytest.raises(StoreError):
        await ask(server, "GET", Want())


@pytest.mark.parametrize("options", [{"msi_endpoint": "{url}/identity"}, {"client_secret": "s-hidden"}])
async def test_who_gets_no_token_is_unauthenticated_and_knows_no_status_of_the_blob(
    server: FaultServer, options: dict[str, str]
) -> None:
    server.script = spoil.always(spoil.status(404, DOCUMENT % b"BlobNotFound"))
    options = {name: value.format(url=server.url) for name, value in options.items()}
    link = "client_secret" if "client_secret" in options else "managed_identity"
    place = AzurePlace("data", "acct", f"{server.url}/acct", azure=False)
    known = AzureOptions(client_id="c", tenant_id="t", authority_host=server.url, **options)
    chain = make_client(place, known, Access("chain", link=link), None, 5.0)  # type: ignore[arg-type]  # one of them
    for method in ("GET", "HEAD"):
        with pytest.raises(UnauthenticatedError) as raised:
            await through.ask(chain, method, "a", Want(head=method == "HEAD"), 5.0)
        assert raised.value.status is None


async def test_a_panic_of_the_library_is_an_error_of_the_store(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    class RustPanic(Exception):
        """As the bridge between the library and Python names it."""

    async def panics(*given: object) -> Answer:
        raise RustPanic("rust future panicked")

    monkeypatch.setattr(through, "_get", panics)
    with pytest.raises(StoreError, match="failed within itself"):
        await ask(server, "GET", Want())
