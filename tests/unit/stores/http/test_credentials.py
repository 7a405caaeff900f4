"""What goes with every request: headers, and the one that says who asks."""

from __future__ import annotations

import base64
import pickle
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from aiozarr.stores.http.store import HTTPStore
from tests.support.servers.http_server import FaultServer


def basic(text: str, encoding: str = "utf-8") -> str:
    return "Basic " + base64.b64encode(text.encode(encoding)).decode()


def old_style(user: str, password: str, encoding: str) -> aiohttp.BasicAuth:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return aiohttp.BasicAuth(user, password, encoding)


async def sent(store: HTTPStore, server: FaultServer) -> Mapping[str, str]:
    async with store:
        await store.exists("a")
    return server.requests[-1].headers


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"auth": ("us", "p:ß")}, basic("us:p:ß")),
        ({"auth": old_style("us", "ß", "latin1")}, basic("us:ß", "latin1")),
        ({"client_kwargs": {"auth": old_style("us", "pw", "utf-8")}}, basic("us:pw")),
        ({"token": "abc.def"}, "Bearer abc.def"),
        ({"headers": {"authorization": "Custom x"}}, "Custom x"),
        ({"client_kwargs": {"headers": {"Authorization": "Bearer y"}}}, "Bearer y"),
        ({"client_options": {"default_headers": {"Authorization": b"Bearer z"}}}, "Bearer z"),
        ({"auth": ("us", "pw"), "headers": {"Authorization": basic("us:pw")}}, basic("us:pw")),
    ],
)
async def test_credentials_are_sent_however_they_are_spelled(options: dict[str, Any], expected: str) -> None:
    with FaultServer() as server:
        store = HTTPStore(server.url, **options)
        assert (await sent(store, server))["authorization"] == expected
        assert (await sent(pickle.loads(pickle.dumps(store)), server))["authorization"] == expected
    assert not any(word in repr(store) for word in ("pw", "abc", "Custom", "Bearer", "ß"))


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("http://u:hidden@h/", {"auth": ("u", "other-hidden")}),
        ("http://u:hidden@h/", {"token": "hidden"}),
        ("http://h/", {"auth": ("u", "hidden"), "token": "hidden"}),
        ("http://h/", {"headers": {"authorization": "hidden"}, "token": "hidden"}),
        ("http://h/", {"headers": {"X-A": "hidden", "x-a": "hidden-too"}}),
        ("http://h/", {"headers": {"user-agent": "hidden"}, "user_agent": "me"}),
        ("http://h/", {"headers": {"X-A": "hidden\r\nX-B: 1"}}),
        ("http://h/", {"headers": {"Range": "bytes=0-hidden"}}),
        ("http://h/", {"headers": {"accept-encoding": "hidden"}}),
        ("http://h/", {"auth": ("a:b", "hidden")}),
        ("http://h/", {"auth": old_style("a", "hidden日", "latin1")}),
        ("http://h/", {"allow_http": False}),
    ],
)
def test_what_contradicts_itself_or_cannot_be_sent_is_refused_without_showing_it(
    url: str, options: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match=r"different|store itself|cannot|contradict|colon|without TLS") as caught:
        HTTPStore(url, **options)
    assert "hidden" not in str(caught.value)


async def test_headers_replace_those_of_the_store_in_any_case() -> None:
    with FaultServer() as server:
        store = HTTPStore(server.url, headers={"user-agent": "me", "ACCEPT": "x/y", "Cookie": "a=b"})
        headers = await sent(store, server)
        assert (headers["user-agent"], headers["accept"], headers["cookie"]) == ("me", "x/y", "a=b")
        assert (await sent(HTTPStore(server.url, user_agent="you"), server))["user-agent"] == "you"


@pytest.fixture
def netrc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "netrc"
    path.write_text("machine 127.0.0.1 login me password of-the-file\nmachine data.example login a password b\n")
    monkeypatch.setenv("NETRC", str(path))
    return path


async def test_netrc_is_read_where_the_environment_is_trusted_by_word(netrc: Path) -> None:
    with FaultServer() as server:
        assert "authorization" not in await sent(HTTPStore(server.url), server)
        assert "authorization" not in await sent(HTTPStore(server.url, trust_env=False), server)
        for options in ({"trust_env": True}, {"client_kwargs": {"trust_env": True}}):
            store = HTTPStore(server.url, **options)
            assert b"of-the-file" not in pickle.dumps(store)
            for each in (store, pickle.loads(pickle.dumps(store))):
                assert (await sent(each, server))["authorization"] == basic("me:of-the-file")
        store = HTTPStore(server.url, trust_env=True, token="t")
        assert (await sent(store, server))["authorization"] == "Bearer t"
        netrc.unlink()  # noqa: ASYNC240  # no loop waits for it
        assert "authorization" not in await sent(HTTPStore(server.url, trust_env=True), server)


def test_netrc_that_goes_out_without_tls_or_cannot_be_read_is_warned_of(netrc: Path) -> None:
    HTTPStore("https://data.example/", trust_env=True)
    with pytest.warns(UserWarning, match="without TLS"):
        HTTPStore("http://data.example/", trust_env=True)
    netrc.write_text("machine data.example password 'hidden\nnonsense")
    with pytest.warns(UserWarning, match="cannot be read") as caught:
        HTTPStore("https://data.example/", trust_env=True)
    assert "hidden" not in str(caught[0].message)
