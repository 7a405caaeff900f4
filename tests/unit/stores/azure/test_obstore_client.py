"""Reads through the client library give the responses of the HTTP client."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

from aiozarr.errors import ChangedError, StoreError, StoreTimeoutError, UnauthenticatedError
from aiozarr.http1.connection import Response
from aiozarr.http1.response_check import Accept, Expectation
from aiozarr.model import Range
from aiozarr.stores.azure import obstore_client
from aiozarr.stores.azure.address import AzureEndpoint
from aiozarr.stores.azure.credentials import AzureCredentials
from aiozarr.stores.azure.obstore_client import ObstoreSender, make_client
from aiozarr.stores.options.azure_options import AzureOptions
from tests.support.servers import http_replies as spoil
from tests.support.servers.http_server import FaultServer

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
    place = AzureEndpoint("data", "acct", f"{server.url}/acct", azure=False)
    access = AzureCredentials("key", base64.b64encode(b"key").decode())
    return make_client(place, AzureOptions(), access, None, 5.0)


async def ask(server: FaultServer, method: str, want: Expectation, key: str = "a", *, seconds: float = 5.0) -> Response:
    sender = ObstoreSender(lambda: client(server), seconds)
    return await sender.send(sender.request(method, key, want))


async def test_a_get_brings_bytes_size_and_version(server: FaultServer) -> None:
    answer = await ask(server, "GET", Expectation(keep_encoding=True))
    assert isinstance(answer.action, Accept)
    assert (bytes(answer.body), answer.action.size, answer.headers[b"etag"]) == (DATA, len(DATA), b'"1"')


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [(Range(5, 10), DATA[5:15]), (Range(25_000), DATA[25_000:]), (Range(25_590, 100), DATA[25_590:])],
)
async def test_a_range_is_the_range_that_was_asked_for(server: FaultServer, wanted: Range, expected: bytes) -> None:
    answer = await ask(server, "GET", Expectation(wanted, '"1"'))
    assert isinstance(answer.action, Accept)
    assert (bytes(answer.body), answer.action.size) == (expected, len(DATA))
    assert server.requests[0].headers["if-match"] == '"1"'


async def test_a_head_brings_size_and_version_in_one_request(server: FaultServer) -> None:
    answer = await ask(server, "HEAD", Expectation(head=True))
    assert isinstance(answer.action, Accept)
    assert (answer.action.size, answer.headers[b"etag"]) == (len(DATA), b'"1"')
    assert len(server.requests) == 1


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("code", [b"BlobNotFound", b"ContainerNotFound"])
async def test_a_missing_blob_is_recognised_by_its_error_code(server: FaultServer, method: str, code: bytes) -> None:
    server.script = spoil.always(spoil.status(404, DOCUMENT % code))
    answer = await ask(server, method, Expectation(head=method == "HEAD"))
    assert (answer.status, answer.headers[b"x-ms-error-code"]) == (404, code)


@pytest.mark.parametrize(
    ("status", "code"), [(403, b"AuthenticationFailed"), (412, b"ConditionNotMet"), (416, b"InvalidRange")]
)
async def test_a_refusal_is_an_answer_with_status_and_code(server: FaultServer, status: int, code: bytes) -> None:
    server.script = spoil.always(spoil.status(status, DOCUMENT % code))
    answer = await ask(server, "GET", Expectation())
    assert (answer.status, answer.headers[b"x-ms-error-code"]) == (status, code)
    assert not isinstance(answer.action, Accept)
    assert len(server.requests) == 1


async def test_another_version_than_expected_is_a_changed_error_where_the_server_does_not_notice(
    server: FaultServer,
) -> None:
    for method, weak in (("GET", 'W/"other"'), ("HEAD", '"other"')):
        with pytest.raises(ChangedError):
            await ask(server, method, Expectation(etag=weak, head=method == "HEAD"))


async def test_no_answer_is_an_error_in_time(server: FaultServer) -> None:
    server.script = spoil.always(spoil.no_answer)
    with pytest.raises(StoreTimeoutError):
        await ask(server, "GET", Expectation(), seconds=0.05)


async def test_a_connection_that_ends_within_the_body_is_an_error(server: FaultServer) -> None:
    server.script = spoil.always(spoil.reset_in_body(100))
    with pytest.raises(StoreError):
        await ask(server, "GET", Expectation())


@pytest.mark.parametrize("options", [{"msi_endpoint": "{url}/identity"}, {"client_secret": "s-hidden"}])
async def test_a_read_without_a_token_is_unauthenticated_and_has_no_status(
    server: FaultServer, options: dict[str, str]
) -> None:
    server.script = spoil.always(spoil.status(404, DOCUMENT % b"BlobNotFound"))
    options = {name: value.format(url=server.url) for name, value in options.items()}
    link = "client_secret" if "client_secret" in options else "managed_identity"
    place = AzureEndpoint("data", "acct", f"{server.url}/acct", azure=False)
    known = AzureOptions(client_id="c", tenant_id="t", authority_host=server.url, **options)
    chain = make_client(place, known, AzureCredentials("chain", link=link), None, 5.0)  # type: ignore[arg-type]  # one of them
    sender = ObstoreSender(lambda: chain, 5.0)
    for method in ("GET", "HEAD"):
        with pytest.raises(UnauthenticatedError) as raised:
            await sender.send(sender.request(method, "a", Expectation(head=method == "HEAD")))
        assert raised.value.status is None


async def test_a_panic_of_the_library_is_an_error_of_the_store(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    class RustPanic(Exception):
        """As the bridge between the library and Python names it."""

    async def panics(*given: object) -> Response:
        raise RustPanic("rust future panicked")

    monkeypatch.setattr(obstore_client, "_get", panics)
    with pytest.raises(StoreError, match="failed within itself"):
        await ask(server, "GET", Expectation())
