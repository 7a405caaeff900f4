"""Web addresses: what is sent, and what is shown."""

import pytest

from aiozarr.http1.url import WebAddress, fingerprint, proxy_for


def test_a_url_is_taken_apart() -> None:
    address = WebAddress.parse("https://us%40er:p%3Aw@Example.org:8443/a%20b/c/?sig=x%2Fy&v=1")
    assert (address.host, address.port, address.path, address.query) == (
        "example.org",
        8443,
        "/a%20b/c",
        "sig=x%2Fy&v=1",
    )
    assert (address.user, address.password) == ("us@er", "p:w")
    assert (address.shown, address.authority) == ("https://example.org:8443/a%20b/c", "example.org:8443")


def test_default_ports_ipv6_and_names_in_unicode_are_sent_in_their_usual_form() -> None:
    assert WebAddress.parse("http://h:80/").authority == "h"
    assert WebAddress.parse("https://h:80/").authority == "h:80"
    assert WebAddress.parse("http://[::1]:8080/x").authority == "[::1]:8080"
    assert WebAddress.parse("http://[::1]:8080/x").host == "::1"
    assert WebAddress.parse("https://bücher.example/ü").shown == "https://xn--bcher-kva.example/%C3%BC"


@pytest.mark.parametrize(
    "url",
    [
        "ftp://h/",
        "http://",
        "h/x",
        "http://h:port/",
        "http://h:99999/",
        "http://h/a b",
        "http://h/\r\nX: y",
        "http://h/\ud800",
        "http://[x/",
        "http://a..b/",
        "http://.example/",
        f"http://{'a' * 64}.example/",
    ],
)
def test_an_invalid_web_address_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(ValueError, match="URL") as caught:
        WebAddress.parse(url.replace("h/", "user:secret@h/"))
    assert "secret" not in str(caught.value)


def test_a_fingerprint_distinguishes_secrets_without_showing_them() -> None:
    assert fingerprint({}) == ""
    assert fingerprint({"a": "secret"}) == fingerprint({"A": "secret"})
    assert fingerprint({"a": "b", "c": "d"}) != fingerprint({"a": "bc", "": "d"})
    assert "secret" not in fingerprint({"a": "secret"})


def test_proxies_come_from_the_environment_and_no_proxy_excepts_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    address = WebAddress.parse("http://data.example/x")
    assert proxy_for(address) is None
    monkeypatch.setenv("http_proxy", "proxy.example:3128")
    assert proxy_for(address) == "http://proxy.example:3128"
    assert proxy_for(WebAddress.parse("https://data.example/")) is None
    monkeypatch.setenv("no_proxy", "localhost,.example")
    assert proxy_for(address) is None


@pytest.mark.parametrize(
    ("url", "exposed"),
    [
        ("https://store.example", False),
        ("http://store.example", True),
        ("http://localhost:9000", False),
        ("http://127.3.2.1", False),
        ("http://[::1]:1", False),
        ("http://127.example", True),
        ("http://10.0.0.1", True),
    ],
)
def test_requests_without_tls_to_another_machine_are_exposed(url: str, exposed: bool) -> None:
    assert WebAddress.parse(url).exposed is exposed


@pytest.mark.parametrize("url", ["https://key:hidden@store.example", "https://store.example/?token=hidden"])
def test_an_endpoint_holds_no_secrets(url: str) -> None:
    with pytest.raises(ValueError, match="cannot contain credentials or a query") as caught:
        WebAddress.of_endpoint(url)
    assert "hidden" not in str(caught.value)
