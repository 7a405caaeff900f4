"""The fault server: its honest answers, and each way to spoil one, as a plain client sees them."""

from __future__ import annotations

import gc
import gzip
import http.client
import socket
import threading
from collections.abc import Callable, Iterator
from urllib.parse import quote

import pytest

from tests.support.certificates import authority
from tests.support.servers import http_replies as spoil
from tests.support.servers.http_replies import Reply
from tests.support.servers.http_server import FaultServer

DATA = b"0123456789"


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer({"a/ü%20+": DATA, "empty": b""}) as running:
        yield running


class Client:
    """One keep-alive connection."""

    def __init__(self, server: FaultServer) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)

    def ask(
        self, method: str, key: str, body: bytes | None = None, **headers: str
    ) -> tuple[int, bytes, http.client.HTTPMessage]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.connection.request(method, "/" + quote(key), body, named)
        answer = self.connection.getresponse()
        return answer.status, answer.read(), answer.headers


@pytest.fixture
def client(server: FaultServer) -> Iterator[Client]:
    made = Client(server)
    yield made
    made.connection.close()


@pytest.mark.parametrize(
    ("asked", "status", "body", "content_range"),
    [
        ("", 200, DATA, None),
        ("bytes=2-4", 206, b"234", "bytes 2-4/10"),
        ("bytes=8-99", 206, b"89", "bytes 8-9/10"),
        ("bytes=3-", 206, b"3456789", "bytes 3-9/10"),
        ("bytes=-3", 206, b"789", "bytes 7-9/10"),
        ("bytes=-99", 206, DATA, "bytes 0-9/10"),
        ("bytes=10-", 416, b"", "bytes */10"),
        ("bytes=-0", 416, b"", "bytes */10"),
        ("bytes=0-1,4-5", 200, DATA, None),
    ],
)
def test_ranges_are_served_by_rfc_9110(
    client: Client, asked: str, status: int, body: bytes, content_range: str | None
) -> None:
    found = client.ask("GET", "a/ü%20+", **({"Range": asked} if asked else {}))
    assert found[:2] == (status, body)
    assert found[2]["Content-Range"] == content_range


def test_head_missing_keys_and_conditions_get_correct_responses(server: FaultServer, client: Client) -> None:
    status, body, headers = client.ask("HEAD", "a/ü%20+")
    assert (status, body, headers["Content-Length"]) == (200, b"", "10")
    etag = headers["ETag"]
    assert client.ask("GET", "nope")[0] == 404
    assert client.ask("GET", "a/ü%20+", If_Match=etag)[:2] == (200, DATA)
    assert client.ask("GET", "a/ü%20+", If_None_Match=etag)[0] == 304
    server.put("a/ü%20+", b"new")
    assert client.ask("GET", "a/ü%20+", If_Match=etag)[0] == 412
    assert client.ask("POST", "a")[0] == 405
    assert server.connections == 1
    assert [request.method for request in server.requests] == ["HEAD", "GET", "GET", "GET", "GET", "POST"]
    assert server.requests[0].key == "a/ü%20+"


def test_values_are_written_with_conditions_and_erased(server: FaultServer, client: Client) -> None:
    status, _, headers = client.ask("PUT", "n/1", b"abc", If_None_Match="*")
    assert status == 201
    assert client.ask("PUT", "n/1", b"xyz", If_None_Match="*")[0] == 412
    assert client.ask("PUT", "n/1", b"def", If_Match=headers["ETag"])[0] == 200
    assert client.ask("PUT", "n/1", b"ghi", If_Match=headers["ETag"])[0] == 412
    assert server.get("n/1") == b"def"
    assert client.ask("GET", "n/1")[1] == b"def"
    assert client.ask("DELETE", "n/1")[0] == 204
    assert "n/1" not in server.keys()  # noqa: SIM118  # no mapping: a list of keys


def test_a_script_chooses_whether_a_failed_write_takes_effect(server: FaultServer, client: Client) -> None:
    server.script = spoil.always(spoil.status(503))
    assert client.ask("PUT", "refused", b"1")[0] == 503
    server.script = spoil.always(spoil.applied(500))
    assert client.ask("PUT", "done", b"1")[0] == 500
    server.script = spoil.always(spoil.reset)
    with pytest.raises(ConnectionResetError):
        client.ask("PUT", "lost", b"1")
    assert {"done", "lost"} <= set(server.keys())
    assert server.get("refused") is None


@pytest.mark.parametrize(
    ("how", "status", "body"),
    [
        (spoil.status(503, b"busy", Retry_After="7"), 503, b"busy"),
        (spoil.html(), 200, b"<html><body>Please log in</body></html>"),
        (spoil.shortened(1), 206, b"234"),
        (spoil.lengthened(b"!"), 206, b"2345!"),
        (spoil.whole(DATA), 200, DATA),
        (spoil.status_only(200), 200, b"2345"),
        (spoil.chunked, 206, b"2345"),
        (spoil.until_close, 206, b"2345"),
        (spoil.closing, 206, b"2345"),
        (spoil.dropping, 206, b"2345"),
        (spoil.dripping(1, 0.001), 206, b"2345"),
        (spoil.delayed(0.01), 206, b"2345"),
        (spoil.header_flood(20, 10), 206, b"2345"),
        (spoil.content_range("bytes 0-3/10"), 206, b"2345"),
        (spoil.etag(None), 206, b"2345"),
        (spoil.redirect("http://other/"), 302, b""),
    ],
)
def test_a_scripted_fault_still_arrives_as_http(
    server: FaultServer, client: Client, how: Callable[[Reply], Reply], status: int, body: bytes
) -> None:
    server.script = spoil.always(how)
    assert client.ask("GET", "a/ü%20+", Range="bytes=2-5")[:2] == (status, body)


def test_headers_of_scripted_responses_are_sent_as_given(server: FaultServer, client: Client) -> None:
    def headers(how: Callable[[Reply], Reply]) -> http.client.HTTPMessage:
        server.script = spoil.always(how)
        return client.ask("GET", "a/ü%20+", Range="bytes=2-5")[2]

    assert headers(spoil.status(429, Retry_After="7"))["Retry-After"] == "7"
    assert headers(spoil.etag('W/"x"')).get_all("ETag") == ['W/"x"']
    assert headers(spoil.etag(None))["ETag"] is None
    assert headers(spoil.content_range("bytes 0-3/10")).get_all("Content-Range") == ["bytes 0-3/10"]
    assert headers(spoil.multipart)["Content-Type"].startswith("multipart/byteranges")
    assert headers(spoil.redirect("http://other/"))["Location"] == "http://other/"
    server.script = spoil.always(spoil.gzipped)
    _, body, found = client.ask("GET", "a/ü%20+")
    assert (found["Content-Encoding"], gzip.decompress(body)) == ("gzip", DATA)


@pytest.mark.parametrize(
    ("how", "error"),
    [
        (spoil.reset, ConnectionResetError),
        (spoil.reset_in_body(3), ConnectionResetError),
        (spoil.truncated(3), http.client.IncompleteRead),
        (spoil.garbage(b"no http"), http.client.BadStatusLine),
        (spoil.garbage(b""), http.client.RemoteDisconnected),
    ],
)
def test_a_broken_response_is_a_client_error(
    server: FaultServer, client: Client, how: Callable[[Reply], Reply], error: type[Exception]
) -> None:
    server.script = spoil.always(how)
    with pytest.raises(error):
        client.ask("GET", "a/ü%20+")


@pytest.mark.parametrize("how", [spoil.stalled(2), spoil.no_answer, spoil.delayed(3600)])
def test_a_stalled_response_ends_with_its_client(
    server: FaultServer, client: Client, how: Callable[[Reply], Reply]
) -> None:
    server.script = spoil.always(how)
    client.connection.timeout = 0.05
    with pytest.raises(TimeoutError):
        client.ask("GET", "a/ü%20+")
    assert server.open_connections == 1
    client.connection.close()
    for _ in range(500):
        if server.open_connections == 0:
            break
        threading.Event().wait(0.01)
    assert server.open_connections == 0


def test_scripts_choose_their_requests(server: FaultServer, client: Client) -> None:
    server.script = spoil.only({2: spoil.status(500), 4: spoil.status(501)})
    assert [client.ask("GET", "empty")[0] for _ in range(5)] == [200, 500, 200, 501, 200]
    server.script = spoil.first(7, spoil.status(503))
    assert [client.ask("GET", "empty")[0] for _ in range(3)] == [503, 503, 200]
    server.script = spoil.when(lambda request: request.key == "empty", spoil.status(500))
    assert client.ask("GET", "empty")[0] == 500
    assert client.ask("GET", "a/ü%20+")[0] == 200


def test_closing_twice_is_no_error_and_ends_open_connections(server: FaultServer) -> None:
    client = Client(server)
    client.ask("GET", "empty")
    server.close()
    server.close()
    with pytest.raises((ConnectionError, http.client.RemoteDisconnected)):
        client.ask("GET", "empty")
    client.connection.close()


@pytest.mark.parametrize("spoken", [False, True], ids=["within the handshake", "after it"])
def test_connections_of_tls_are_closed_with_the_server(spoken: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[object] = []
    monkeypatch.setattr("sys.unraisablehook", lambda found: left.append(found.exc_value))
    with FaultServer({"a": b"1"}, tls=authority().server()) as server:
        there = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(8)]
        if spoken:
            there = [authority().trust().wrap_socket(one, server_hostname="127.0.0.1") for one in there]
    gc.collect()
    for one in there:
        one.close()
    assert left == []
