"""The Google Cloud Storage fake, as gcsfs, obstore and a plain client see it."""

from __future__ import annotations

import base64
import gzip
import http.client
import io
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import google_crc32c
import obstore
import pytest
from obstore.store import GCSStore

from tests.support.servers.gcs_server import GcsServer
from tests.support.servers.http_replies import applied, first, status

DATA = b"0123456789"
ODD = "a b/ü%20+#?&=/c"


@pytest.fixture
def server() -> Iterator[GcsServer]:
    with GcsServer("bucket") as running:
        yield running


class Client:
    """One keep-alive connection."""

    def __init__(self, server: GcsServer) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)

    def ask(self, method: str, target: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes, Any]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.connection.request(method, target, body, named)
        answer = self.connection.getresponse()
        return answer.status, answer.read(), answer.headers

    def said(self, method: str, target: str, body: bytes | None = None, **headers: str) -> tuple[int, Any]:
        code, answer, _ = self.ask(method, target, body, **headers)
        return code, json.loads(answer or b"null")


@pytest.fixture
def client(server: GcsServer) -> Iterator[Client]:
    made = Client(server)
    yield made
    made.connection.close()


def crc(data: bytes) -> str:
    return base64.b64encode(google_crc32c.value(data).to_bytes(4, "big")).decode()


# --- the XML API -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "code", "body"),
    [("", 200, DATA), ("bytes=2-4", 206, b"234"), ("bytes=-3", 206, b"789"), ("bytes=-99", 206, DATA)],
)
def test_ranges_are_served_with_generation_and_the_hashes_of_the_whole(
    server: GcsServer, client: Client, asked: str, code: int, body: bytes
) -> None:
    generation = server.put("bucket", ODD, DATA)
    ranged = {"Range": asked} if asked else {}
    found, data, headers = client.ask("GET", f"/bucket/{quote(ODD)}", None, **ranged)
    assert (found, data) == (code, body)
    assert headers["x-goog-generation"] == generation
    assert headers.get_all("x-goog-hash")[0] == f"crc32c={crc(DATA)}"


def test_a_range_past_the_end_a_missing_key_and_a_missing_bucket_are_different_errors(
    server: GcsServer, client: Client
) -> None:
    server.put("bucket", "k", DATA)
    code, body, _ = client.ask("GET", "/bucket/k", Range="bytes=10-")
    assert code == 416
    assert b"<Code>InvalidRange</Code>" in body
    assert b"<Code>NoSuchKey</Code>" in client.ask("GET", "/bucket/none")[1]
    assert b"<Code>NoSuchBucket</Code>" in client.ask("GET", "/none/k")[1]


def test_writes_under_a_condition_happen_only_where_it_holds(server: GcsServer, client: Client) -> None:
    new = {"x_goog_if_generation_match": "0"}
    code, _, headers = client.ask("PUT", "/bucket/k", b"1", **new)
    assert code == 200
    generation = headers["x-goog-generation"]
    assert client.ask("PUT", "/bucket/k", b"2", **new)[0] == 412
    code, _, headers = client.ask("PUT", "/bucket/k", b"3", x_goog_if_generation_match=generation)
    assert code == 200
    assert int(headers["x-goog-generation"]) > int(generation)
    assert client.ask("PUT", "/bucket/k", b"4", x_goog_if_generation_match=generation)[0] == 412
    assert client.ask("GET", "/bucket/k", x_goog_if_generation_match=generation)[0] == 412
    assert client.ask("GET", "/bucket/k")[1] == b"3"


def test_an_upload_whose_hash_is_wrong_is_refused(server: GcsServer, client: Client) -> None:
    assert client.ask("PUT", "/bucket/k", b"1", x_goog_hash=f"crc32c={crc(b'1')}")[0] == 200
    code, body, _ = client.ask("PUT", "/bucket/k", b"2", x_goog_hash=f"crc32c={crc(b'1')}")
    assert code == 400
    assert b"BadDigest" in body
    assert server.get("bucket", "k") == b"1"


def test_gzip_objects_are_decompressed_unless_the_client_accepts_gzip(server: GcsServer, client: Client) -> None:
    packed = gzip.compress(DATA, mtime=0)
    server.put("bucket", "k", packed, content_encoding="gzip")
    assert client.ask("GET", "/bucket/k", Accept_Encoding="identity", Range="bytes=0-1")[:2] == (200, DATA)
    code, body, headers = client.ask("GET", "/bucket/k", Accept_Encoding="gzip", Range="bytes=0-1")
    assert (code, body, headers["Content-Encoding"]) == (206, packed[:2], "gzip")


@pytest.mark.parametrize("name", ["a%0Ab", "a%0Db", ".", "k" * 1025])
def test_names_that_an_object_cannot_have_are_refused(client: Client, name: str) -> None:
    assert client.ask("PUT", f"/bucket/{name}", b"1")[0] == 400


# --- the JSON API ----------------------------------------------------------------------------------------------------


def test_a_listing_is_paged_and_has_the_requested_fields(server: GcsServer, client: Client) -> None:
    keys = [f"d/{number:02}" for number in range(7)]
    for key in keys:
        server.put("bucket", key, b"x")
    found: list[str] = []
    token = ""
    for _ in range(9):
        target = f"/storage/v1/b/bucket/o?prefix=d/&maxResults=3&fields=items(name,size),nextPageToken{token}"
        _, page = client.said("GET", target)
        assert all(set(item) == {"name", "size"} for item in page["items"])
        found += [item["name"] for item in page["items"]]
        if "nextPageToken" not in page:
            break
        token = f"&pageToken={quote(page['nextPageToken'], safe='')}"
    assert found == keys


@pytest.mark.parametrize("limit", [1, 2, 1000])
def test_keys_after_a_delimiter_are_rolled_up_once_across_pages_too(
    server: GcsServer, client: Client, limit: int
) -> None:
    for key in ("a", "b/1", "b/2", "b/3", "c/", "c/d/e", "d", "é/x"):
        server.put("bucket", key, b"x")
    keys: list[str] = []
    prefixes: list[str] = []
    token = ""
    for _ in range(20):
        _, page = client.said("GET", f"/storage/v1/b/bucket/o?delimiter=/&maxResults={limit}{token}")
        keys += [item["name"] for item in page.get("items", [])]
        prefixes += page.get("prefixes", [])
        if "nextPageToken" not in page:
            break
        token = f"&pageToken={quote(page['nextPageToken'], safe='')}"
    assert (keys, prefixes) == (["a", "d"], ["b/", "c/", "é/"])


def test_a_resumable_upload_continues_from_the_stored_bytes(server: GcsServer, client: Client) -> None:
    data = bytes(range(256)) * 2048  # two quanta
    begin = "/upload/storage/v1/b/bucket/o?uploadType=resumable&name=k&ifGenerationMatch=0"
    about = json.dumps({"crc32c": crc(data)}).encode()
    code, _, headers = client.ask("POST", begin, about)
    assert code == 200
    session = headers["Location"].removeprefix(server.url)
    server.uploads.keeps = 100_000
    code, _, headers = client.ask("PUT", session, data[: 1 << 18], Content_Range=f"bytes 0-{(1 << 18) - 1}/*")
    assert (code, headers["Range"]) == (308, "bytes=0-99999")
    code, _, headers = client.ask("PUT", session, Content_Range="bytes */*")
    assert (code, headers["Range"]) == (308, "bytes=0-99999")
    server.uploads.keeps = None
    code, described = client.said("PUT", session, data[100_000:], Content_Range=f"bytes 100000-524287/{len(data)}")
    assert code == 200
    assert server.blob("bucket", "k").generation == int(described["generation"])  # type: ignore[union-attr]
    assert server.get("bucket", "k") == data
    assert client.said("PUT", session, Content_Range=f"bytes */{len(data)}") == (200, described)
    assert client.ask("POST", begin, about)[0] == 412


def test_a_cancelled_session_is_gone(client: Client) -> None:
    _, _, headers = client.ask("POST", "/upload/storage/v1/b/bucket/o?uploadType=resumable&name=k", b"{}")
    session = "/" + headers["Location"].split("/", 3)[3]
    assert client.ask("DELETE", session)[0] == 499
    assert client.ask("PUT", session, b"x")[0] == 410


def test_a_batch_request_gets_a_response_per_part(server: GcsServer, client: Client) -> None:
    server.put("bucket", "a/b", b"x")
    part = "--sep\r\nContent-Type: application/http\r\n\r\nDELETE /storage/v1/b/bucket/o/{} HTTP/1.1\r\n\r\n"
    body = (part.format("a%2Fb") + part.format("none") + "--sep--").encode()
    code, answer, _ = client.ask("POST", "/batch/storage/v1", body, Content_Type='multipart/mixed; boundary="sep"')
    assert code == 200
    assert [line for line in answer.split(b"\r\n") if line.startswith(b"HTTP/")] == [
        b"HTTP/1.1 204 Said",
        b"HTTP/1.1 404 Said",
    ]
    assert server.keys("bucket") == []


def test_composite_objects_have_no_md5(server: GcsServer, client: Client) -> None:
    server.put("bucket", "a", b"1")
    server.put("bucket", "b", b"2")
    about = json.dumps({"sourceObjects": [{"name": "a"}, {"name": "b"}]}).encode()
    _, described = client.said("POST", "/storage/v1/b/bucket/o/ab/compose", about)
    assert described["crc32c"] == crc(b"12")
    assert "md5Hash" not in described
    _, _, headers = client.ask("GET", "/bucket/ab")
    assert headers.get_all("x-goog-hash") == [f"crc32c={crc(b'12')}"]


def test_errors_of_the_json_api_have_a_reason(client: Client) -> None:
    code, said = client.said("GET", "/storage/v1/b/bucket/o/none")
    assert (code, said["error"]["errors"][0]["reason"]) == (404, "notFound")


# --- who may ---------------------------------------------------------------------------------------------------------


def test_tokens_are_checked_where_the_server_asks_for_them(server: GcsServer, client: Client) -> None:
    server.tokens = {"good", "known"}
    server.refused = {"known"}
    assert client.ask("GET", "/storage/v1/b/bucket")[0] == 401
    assert client.ask("GET", "/bucket/k")[0] == 403
    assert client.ask("GET", "/bucket/k", Authorization="Bearer bad")[0] == 401
    assert client.ask("GET", "/bucket/k", Authorization="Bearer known")[0] == 403
    assert client.ask("GET", "/bucket/k", Authorization="Bearer good")[0] == 404


def test_a_paying_project_is_required(server: GcsServer, client: Client) -> None:
    server.payer = "mine"
    assert client.ask("GET", "/bucket/k")[0] == 400
    assert client.ask("GET", "/bucket/k", x_goog_user_project="mine")[0] == 404
    assert client.ask("GET", "/storage/v1/b/bucket/o?userProject=mine")[0] == 200


def test_a_script_decides_whether_a_write_takes_effect(server: GcsServer, client: Client) -> None:
    server.script = first(1, status(503))
    assert client.ask("PUT", "/bucket/a", b"1")[0] == 503
    assert server.get("bucket", "a") is None
    server.script = lambda request, reply: applied(503)(reply)
    assert client.ask("PUT", "/bucket/a", b"1")[0] == 503
    assert server.get("bucket", "a") == b"1"


# --- other clients ---------------------------------------------------------------------------------------------------


def obstore_store(server: GcsServer) -> GCSStore:
    return GCSStore(
        "bucket",
        config={"base_url": server.url, "bearer_token": "token"},
        client_options={"allow_http": True},
        retry_config={"max_retries": 0, "retry_timeout": timedelta(seconds=5)},
    )


def test_obstore_reads_writes_lists_and_deletes(server: GcsServer) -> None:
    store = obstore_store(server)
    put = obstore.put(store, "d/ü b", DATA)
    assert put["version"] == str(server.blob("bucket", "d/ü b").generation)  # type: ignore[union-attr]
    assert bytes(obstore.get(store, "d/ü b").bytes()) == DATA
    assert bytes(obstore.get_range(store, "d/ü b", start=2, end=5)) == b"234"
    assert obstore.head(store, "d/ü b")["size"] == 10
    obstore.put(store, "x", b"1")
    listed = obstore.list_with_delimiter(store)
    assert ([entry["path"] for entry in listed["objects"]], listed["common_prefixes"]) == (["x"], ["d"])
    obstore.copy(store, "x", "y")
    obstore.delete(store, ["x", "d/ü b"])
    assert server.keys("bucket") == ["y"]
    with pytest.raises(FileNotFoundError):
        obstore.get(store, "x")


def test_obstore_writes_under_conditions_and_in_parts(server: GcsServer) -> None:
    store = obstore_store(server)
    first_version = obstore.put(store, "k", b"1", mode="create")
    with pytest.raises(obstore.exceptions.AlreadyExistsError):
        obstore.put(store, "k", b"2", mode="create")
    obstore.put(store, "k", b"3", mode={"version": first_version["version"]})
    with pytest.raises(obstore.exceptions.PreconditionError):
        obstore.put(store, "k", b"4", mode={"version": first_version["version"]})
    big = bytes(range(256)) * (12 << 12)
    obstore.put(store, "big", big, use_multipart=True, chunk_size=5 << 20)
    assert server.get("bucket", "big") == big
    assert server.get("bucket", "k") == b"3"


@pytest.mark.filterwarnings("ignore:Sending a large body")  # of aiohttp, at gcsfs
def test_gcsfs_reads_writes_lists_and_deletes(server: GcsServer) -> None:
    # The plain class: the one that gcsfs makes of it by default asks by gRPC, for a minute, what kind of bucket it is.
    core = pytest.importorskip("gcsfs.core")
    fs = core.GCSFileSystem(
        token="anon", endpoint_url=server.url, use_listings_cache=False, skip_instance_cache=True, consistency="md5"
    )
    fs.pipe_file("bucket/d/ü b", DATA)
    assert fs.cat_file("bucket/d/ü b") == DATA
    assert fs.cat_file("bucket/d/ü b", start=2, end=5) == b"234"
    assert fs.cat_file("bucket/d/ü b", start=-3) == b"789"
    assert fs.info("bucket/d/ü b")["size"] == 10
    assert fs.ls("bucket", detail=False) == ["bucket/d"]
    big = bytes(range(256)) * (6 << 12)
    with fs.open("bucket/big", "wb", block_size=1 << 18) as file:
        file.write(big)
    assert server.get("bucket", "big") == big
    assert fs.find("bucket") == ["bucket/big", "bucket/d/ü b"]
    fs.copy("bucket/big", "bucket/copy")
    fs.rm(["bucket/big", "bucket/d/ü b"])
    assert server.keys("bucket") == ["copy"]
    with pytest.raises(FileNotFoundError):
        fs.cat_file("bucket/none")
    with pytest.raises(FileExistsError):
        fs.pipe_file("bucket/copy", b"1", mode="create")


def test_google_s_own_client_reads_writes_lists_and_deletes(server: GcsServer) -> None:
    storage = pytest.importorskip("google.cloud.storage")
    credentials = pytest.importorskip("google.auth.credentials")
    client = storage.Client("p", credentials.AnonymousCredentials(), client_options={"api_endpoint": server.url})
    bucket = client.bucket("bucket")
    blob = bucket.blob(ODD)
    blob.upload_from_string(DATA, checksum="crc32c", if_generation_match=0)
    assert blob.generation == server.blob("bucket", ODD).generation  # type: ignore[union-attr]
    assert blob.download_as_bytes(checksum="crc32c") == DATA
    assert blob.download_as_bytes(start=2, end=4) == b"234"
    big = bytes(range(256)) * (3 << 12)
    large = bucket.blob("big", chunk_size=1 << 20)
    large.upload_from_file(io.BytesIO(big), size=len(big), checksum="crc32c")
    assert large.download_as_bytes() == big
    assert sorted(found.name for found in client.list_blobs("bucket")) == sorted(["big", ODD])
    with client.batch():
        blob.delete()
        large.delete()
    assert server.keys("bucket") == []
    client.close()
