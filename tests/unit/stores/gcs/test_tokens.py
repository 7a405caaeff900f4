"""Tokens are asked for once for all who wait, ahead of their end, again when they are refused, and never shown."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import pickle
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.auth import exceptions as untyped_exceptions
from google.auth.credentials import AnonymousCredentials

from aiozarr.errors import PermissionDeniedError, StoreError, UnauthenticatedError
from aiozarr.stores.bucket.store import ObjectStore
from aiozarr.stores.bucket.token_source import RENEW_BEFORE_SECONDS
from aiozarr.stores.gcs.address import GcsOptions
from aiozarr.stores.gcs.credentials import GcsTokenSource, account_name
from tests.support.servers.gcs_server import GcsServer
from tests.support.servers.http_replies import Reply, Request
from tests.support.servers.http_server import ScriptedServer

anonymous: Any = AnonymousCredentials
exceptions: Any = untyped_exceptions  # google-auth has no annotations for them


class Credentials:
    """What google-auth's credentials look like: a new token with each refresh, or an error."""

    service_account_email = "robot@project"

    def __init__(self, *, seconds: float | None = 3600, fail: Exception | None = None) -> None:
        self.token: str | None = None
        self.expiry: dt.datetime | None = None
        self.seconds = seconds
        self.fail = fail
        self.refreshed = 0
        self.gate: threading.Event | None = None

    @property
    def valid(self) -> bool:
        return self.token is not None

    def refresh(self, request: object) -> None:
        if self.gate is not None:
            assert self.gate.wait(10)
        self.refreshed += 1
        if self.fail is not None:
            raise self.fail
        self.token = f"token-{self.refreshed}"
        if self.seconds is not None:
            now = dt.datetime.now(dt.UTC).replace(tzinfo=None)
            self.expiry = now + dt.timedelta(seconds=self.seconds)


@pytest.fixture
def server() -> Iterator[GcsServer]:
    with GcsServer("bucket") as running:
        running.tokens = lambda token: True
        running.put("bucket", "k", b"value")
        yield running


def tokens_of(credentials: Credentials) -> GcsTokenSource:
    return GcsTokenSource(GcsOptions(token=credentials), "credentials")


def sent(server: GcsServer) -> list[str | None]:
    return [request.headers.get("authorization") for request in server.requests]


def open_store(server: GcsServer, token: Any) -> ObjectStore:
    return ObjectStore("gs://bucket", **server.storage_options, token=token)


def test_waiters_in_several_loops_share_one_token_request() -> None:
    credentials = Credentials()
    credentials.gate = threading.Event()
    tokens = tokens_of(credentials)
    found: list[str] = []

    async def wait() -> None:
        found.extend(await asyncio.gather(*(tokens.token() for _ in range(8))))

    threads = [threading.Thread(target=lambda: asyncio.run(wait())) for _ in range(3)]
    for thread in threads:
        thread.start()
    credentials.gate.set()
    for thread in threads:
        thread.join()
    assert credentials.refreshed == 1
    assert set(found) == {"token-1"}
    assert len(found) == 24


def test_waiters_for_a_refused_token_fail_after_one_attempt() -> None:
    credentials = Credentials()
    credentials.gate = threading.Event()
    credentials.fail = exceptions.TransportError("down")
    tokens = tokens_of(credentials)
    found: list[BaseException | str] = []

    async def wait() -> None:
        calls = [asyncio.ensure_future(tokens.token()) for _ in range(50)]
        await asyncio.sleep(0)
        ready.wait()
        credentials.gate.set()  # type: ignore[union-attr]
        found.extend(await asyncio.gather(*calls, return_exceptions=True))

    ready = threading.Barrier(2)
    threads = [threading.Thread(target=lambda: asyncio.run(wait())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert credentials.refreshed == 1
    assert len(found) == len({id(error) for error in found}) == 100
    assert all(isinstance(error, StoreError) and error.retryable and error.__cause__ for error in found)
    credentials.fail = None
    assert asyncio.run(tokens.token())


def test_a_cancelled_waiter_for_a_token_leaves_it_to_the_others_and_no_task(server: GcsServer) -> None:
    credentials = Credentials()
    credentials.gate = gate = threading.Event()

    async def main() -> None:
        async with open_store(server, credentials) as store:
            first, second = (asyncio.create_task(store.get("k")) for _ in range(2))
            await asyncio.sleep(0)
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            gate.set()
            assert await second == b"value"
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())
    assert credentials.refreshed == 1
    assert sent(server) == ["Bearer token-1"]


@pytest.mark.parametrize(("seconds", "kept"), [(RENEW_BEFORE_SECONDS + 60, True), (-60, False), (None, True)])
def test_a_token_is_used_until_shortly_before_its_end(seconds: float | None, kept: bool) -> None:
    credentials = Credentials(seconds=seconds)
    tokens = tokens_of(credentials)

    async def twice() -> None:
        await tokens.token()
        await tokens.token()

    asyncio.run(twice())
    assert credentials.refreshed == (1 if kept else 2)


def test_a_token_that_cannot_be_renewed_is_used_while_it_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    credentials = Credentials(seconds=RENEW_BEFORE_SECONDS / 2)
    tokens = tokens_of(credentials)

    async def main() -> None:
        assert await tokens.token() == "token-1"
        credentials.fail = exceptions.TransportError("down")
        monkeypatch.setattr(tokens, "_fresh_until", 0.0)
        assert await tokens.token() == "token-1"
        assert tokens.cached() == "token-1"
        tokens.record_refusal("token-1")
        with pytest.raises(StoreError) as caught:
            await tokens.token()
        assert caught.value.retryable

    asyncio.run(main())


@pytest.mark.parametrize(
    ("fail", "kind", "retryable"),
    [
        (exceptions.DefaultCredentialsError("none"), UnauthenticatedError, False),
        (exceptions.RefreshError("invalid_grant"), UnauthenticatedError, False),
        (exceptions.RefreshError("later", retryable=True), UnauthenticatedError, True),
        (exceptions.TransportError("down"), StoreError, True),
    ],
)
def test_what_google_auth_raises_is_told_as_an_error_of_ours(
    server: GcsServer, fail: Exception, kind: type[StoreError], retryable: bool
) -> None:
    async def main() -> None:
        async with open_store(server, Credentials(fail=fail)) as store:
            with pytest.raises(kind) as caught:
                await store.get("k")
            error = caught.value
            assert (error.retryable, error.store, error.key) == (retryable, "gs://bucket", "k")
            assert error.__cause__ is fail
            if kind is UnauthenticatedError:
                assert "anon=True" in str(error)
                assert "gcloud auth application-default login" in str(error)

    asyncio.run(main())
    assert server.requests == []


def test_a_refused_token_is_replaced_once_and_reads_go_on(server: GcsServer) -> None:
    server.tokens = lambda token: token != "token-1"
    credentials = Credentials()

    async def main() -> None:
        async with open_store(server, credentials) as store:
            assert await store.get("k") == b"value"
            assert await store.get("k") == b"value"

    asyncio.run(main())
    assert sent(server) == ["Bearer token-1", "Bearer token-2", "Bearer token-2"]


def test_a_refused_token_is_replaced_once_and_writes_go_on(server: GcsServer) -> None:
    server.tokens = lambda token: token != "token-1"

    async def main() -> None:
        async with open_store(server, Credentials()) as store:
            await store.set("new", b"1")

    asyncio.run(main())
    assert sent(server) == ["Bearer token-1", "Bearer token-2"]
    assert server.get("bucket", "new") == b"1"


@pytest.mark.parametrize("token", ["ya29.given", "object"])
def test_credentials_that_are_not_accepted_are_not_tried_for_ever(server: GcsServer, token: str) -> None:
    server.tokens = set()

    async def main() -> None:
        async with open_store(server, Credentials() if token == "object" else token) as store:
            for operation in (store.get("k"), store.set("k", b"1"), store.list(), store.erase("k"), store.stat("k")):
                with pytest.raises(UnauthenticatedError, match="gcloud auth") as caught:
                    await operation
                assert caught.value.status == 401
                assert "ya29" not in str(caught.value)

    asyncio.run(main())
    assert len(server.requests) == (5 if token != "object" else 10)


def test_a_forbidden_object_is_not_missing(server: GcsServer) -> None:
    server.refused = {"ya29.known"}

    async def main() -> None:
        async with open_store(server, "ya29.known") as store:
            for operation in (store.get("k"), store.get("none"), store.set("k", b"1"), store.list()):
                with pytest.raises(PermissionDeniedError):
                    await operation

    asyncio.run(main())


def test_an_anonymous_store_sends_no_credentials(server: GcsServer) -> None:
    server.tokens = None

    async def main() -> None:
        async with ObjectStore("gs://bucket", **server.storage_options, anon=True) as store:
            await store.get("k")
            await store.set("l", b"1")
            await store.list()

    asyncio.run(main())
    assert sent(server) == [None, None, None]


def test_files_and_documents_of_credentials_are_read(tmp_path: Path) -> None:
    user = {"type": "authorized_user", "client_id": "i", "client_secret": "s", "refresh_token": "r"}
    path = tmp_path / "user.json"
    path.write_text(json.dumps(user))
    for token, source in ((str(path), "file"), (user, "document"), ({**user, "type": None}, "document")):
        tokens = GcsTokenSource(GcsOptions(token=token), source)  # type: ignore[arg-type]
        assert tokens._load(None).refresh_token == "r"


def test_credentials_of_other_clouds_and_of_impersonated_accounts_are_known() -> None:
    pool = {
        "type": "external_account",
        "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/q",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": "https://sts.googleapis.com/v1/token",
        "credential_source": {"file": "/not/there"},
    }
    user = {"type": "authorized_user", "client_id": "i", "client_secret": "s", "refresh_token": "r"}
    other = {
        "type": "impersonated_service_account",
        "service_account_impersonation_url": "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/"
        "a@b.iam.gserviceaccount.com:generateAccessToken",
        "source_credentials": user,
    }
    for document, module in ((pool, "google.auth.identity_pool"), (other, "google.auth.impersonated_credentials")):
        found = GcsTokenSource(GcsOptions(token=document), "document")._load(None)
        assert type(found).__module__ == module


@pytest.mark.parametrize("where", ["document", "file", "variable", "login"])
def test_the_credentials_name_the_cloud_whose_server_gets_their_tokens(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = {"type": "authorized_user", "client_id": "i", "client_secret": "s", "refresh_token": "r"}
    for universe in ("universe.test", None):
        document = {**user, **({"universe_domain": universe} if universe else {})}
        path = tmp_path / "application_default_credentials.json"
        path.write_text(json.dumps(document))
        token = {"document": document, "file": str(path)}.get(where)
        if where == "variable":
            monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
        if where == "login":
            monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
        store = ObjectStore("gs://bucket", token=token)
        assert store.origin[0] == f"https://storage.{universe or 'googleapis.com'}"  # type: ignore[index]
        anonymous_store = ObjectStore("gs://bucket", anon=True)
        assert anonymous_store.origin[0] == "https://storage.googleapis.com"  # type: ignore[index]


@pytest.mark.parametrize(
    ("options", "environ"),
    [
        ({"endpoint_url": "https://storage.googleapis.com"}, {}),
        ({"universe_domain": "another.test"}, {}),
        ({}, {"GOOGLE_CLOUD_UNIVERSE_DOMAIN": "another.test"}),
        ({"token": Credentials()}, {"GOOGLE_CLOUD_UNIVERSE_DOMAIN": "another.test"}),
    ],
)
def test_tokens_of_another_cloud_are_neither_requested_nor_sent(
    options: dict[str, Any], environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    user = {"type": "authorized_user", "client_id": "i", "client_secret": "s", "refresh_token": "r"}
    given = {"token": {**user, "universe_domain": "universe.test"}, **options}

    async def main() -> None:
        async with ObjectStore("gs://bucket", **given) as store:
            for _ in range(2):
                with pytest.raises(UnauthenticatedError, match=r"set the option universe_domain='\w+\.\w+'"):
                    await store.fetch("k")

    asyncio.run(main())
    assert getattr(given["token"], "refreshed", 0) == 0


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"type": "authorized_user", "client_id": "hidden"}, "missing fields .*refresh_token"),
        ({"type": "service_account", "private_key": "hidden"}, "missing fields .*client_email"),
        (
            {"type": "service_account", "private_key": "hidden", "client_email": "a@b", "token_uri": "https://t"},
            "cannot be used .*PEM",
        ),
        (
            {"type": "service_account", "private_key": 5, "client_email": "a@b", "token_uri": "https://t"},
            "the Google credentials cannot be used",
        ),
        ({"type": "nowhere"}, "'type' is not one of service_account"),
        ({"type": "external_account", "audience": "hidden"}, "be used; "),
    ],
)
def test_a_document_that_describes_no_credentials_is_refused_with_the_reason(
    document: dict[str, Any], words: str
) -> None:
    tokens = GcsTokenSource(GcsOptions(token=document), "document")
    with pytest.raises(UnauthenticatedError, match=words) as caught:
        asyncio.run(tokens.token())
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    "content", ["no json", "[]", '{"type": "service_account"}', '{"type": "authorized_user"}', '{"type": "new"}']
)
def test_files_that_hold_no_credentials_are_an_error_that_does_not_show_them(tmp_path: Path, content: str) -> None:
    path = tmp_path / "key.json"
    path.write_text(content)
    tokens = GcsTokenSource(GcsOptions(token=str(path)), "file")
    with pytest.raises(UnauthenticatedError, match="cannot be used"):
        asyncio.run(tokens.token())


def test_credentials_that_hold_a_token_are_not_asked_for_another(server: GcsServer) -> None:
    credentials = Credentials()
    credentials.token = "token-0"

    async def main() -> None:
        async with open_store(server, credentials) as store:
            await store.get("k")

    asyncio.run(main())
    assert sent(server) == ["Bearer token-0"]
    assert credentials.refreshed == 0


def test_google_s_own_anonymous_credentials_are_none(server: GcsServer) -> None:
    server.tokens = None

    async def main() -> None:
        async with open_store(server, anonymous()) as store:
            await store.get("k")

    asyncio.run(main())
    assert sent(server) == [None]


def test_application_default_credentials_are_asked_for_with_the_access_that_is_wanted(
    server: GcsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def default(scopes: list[str], request: object) -> tuple[Credentials, str]:
        asked.append(scopes)
        return Credentials(), "project"

    monkeypatch.setattr("google.auth.default", default)

    async def main() -> None:
        async with ObjectStore(
            "gs://bucket", **server.storage_options, token="google_default", access="read_only"
        ) as store:
            await store.get("k")

    asyncio.run(main())
    assert asked == [["https://www.googleapis.com/auth/devstorage.read_only"]]
    assert sent(server) == ["Bearer token-1"]


class TokenServer(ScriptedServer):
    """Exchanges whatever a service account signs for a token."""

    def _answer(self, request: Request) -> Reply:
        body = json.dumps({"access_token": f"robot-{request.number}", "expires_in": 3600}).encode()
        return Reply(200, (("Content-Type", "application/json"),), body)


def test_a_service_account_s_file_is_signed_with_and_exchanged_for_a_token(server: GcsServer, tmp_path: Path) -> None:
    rsa = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.rsa")
    serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    server.tokens = {"robot-1"}
    path = tmp_path / "robot.json"
    with TokenServer() as exchange:
        path.write_text(
            json.dumps(
                {"type": "service_account", "client_email": "r@p", "private_key": pem, "token_uri": exchange.url}
            )
        )

        async def main() -> None:
            async with ObjectStore("gs://bucket", **server.storage_options, token=str(path)) as store:
                assert await store.get("k") == b"value"
                await store.set("l", b"1")

        asyncio.run(main())
        assert len(exchange.requests) == 1


def test_without_google_auth_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, server: GcsServer) -> None:
    for name in ("google.auth", "google"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match="pip install google-auth requests"):
        ObjectStore("gs://bucket")
    ObjectStore("gs://bucket", anon=True)
    ObjectStore("gs://bucket", token="ya29.given")


def test_credentials_are_distinguished_without_showing_them() -> None:
    one, other = GcsOptions(token="ya29.a"), GcsOptions(token="ya29.b")
    assert account_name(one, "token") != account_name(other, "token")
    assert "ya29" not in account_name(one, "token")
    assert account_name(GcsOptions(token={"private_key": "x"}), "document") != account_name(
        GcsOptions(token={"private_key": "y"}), "document"
    )
    assert account_name(GcsOptions(token=Credentials()), "credentials") == account_name(
        GcsOptions(token=Credentials()), "credentials"
    )


def test_a_store_with_a_token_can_be_pickled_and_does_not_show_it(server: GcsServer) -> None:
    server.tokens = {"ya29.secret"}
    store = open_store(server, "ya29.secret")
    assert "ya29" not in repr(store)
    copy = pickle.loads(pickle.dumps(store))
    assert copy == store

    async def main() -> None:
        async with copy:
            assert await copy.get("k") == b"value"

    asyncio.run(main())


def test_tokens_that_would_go_out_without_tls_are_warned_of() -> None:
    with pytest.warns(UserWarning, match="without TLS"):
        ObjectStore("gs://bucket", endpoint_url="http://far.example", token="ya29.a")
