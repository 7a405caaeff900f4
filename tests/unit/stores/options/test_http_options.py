"""The table of storage options of web servers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import aiohttp
import pytest

from aiozarr.stores.http.http_options import HTTP_TABLE, HTTPOptions, http_options
from aiozarr.stores.http.store import HTTPStore


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"headers": {"A": "b"}}, {"headers": {"A": "b"}}),
        ({"client_kwargs": {"headers": {"A": "b"}}}, {"headers": {"A": "b"}}),
        ({"auth": ("u", "p")}, {"auth": ("u", "p", "utf-8")}),
        ({"auth": ["u", "p"]}, {"auth": ("u", "p", "utf-8")}),
        ({"client_kwargs": {"auth": ("u", "p", "latin1")}}, {"auth": ("u", "p", "latin1")}),
        ({"token": "t"}, {"token": "t"}),
        ({"user_agent": "a b"}, {"user_agent": "a b"}),
        ({"client_kwargs": {"trust_env": True}}, {"trust_env": True}),
        ({"proxy": "http://p:1"}, {"proxy": "http://p:1"}),
        ({"ssl": False}, {"allow_invalid_certificates": True}),
        ({"ssl": True}, {"allow_invalid_certificates": False}),
        ({"verify_ssl": False}, {"allow_invalid_certificates": True}),
        ({"allow_invalid_certificates": "true"}, {"allow_invalid_certificates": True}),
        ({"root_certificate": b"-----BEGIN x"}, {"root_certificate": "-----BEGIN x"}),
        ({"allow_http": True}, {"allow_http": True}),
        ({"max_connections": 5}, {"max_connections": 5}),
        ({"idle_timeout": 5}, {"idle_timeout": 5}),
        ({"idle_timeout": timedelta(seconds=90)}, {"idle_timeout": 90}),
        ({"connect_timeout": timedelta(seconds=3)}, {"connect_timeout": 3}),
        ({"client_kwargs": {"timeout": aiohttp.ClientTimeout(total=None)}}, {}),
        ({"client_kwargs": {"timeout": aiohttp.ClientTimeout(total=3600)}}, {}),
        ({"client_kwargs": {"timeout": aiohttp.ClientTimeout(total=5)}}, {"idle_timeout": 5, "connect_timeout": 5}),
        ({"timeout": aiohttp.ClientTimeout(sock_read=60, sock_connect=2)}, {"idle_timeout": 60, "connect_timeout": 2}),
        ({"timeout": 7, "idle_timeout": 6}, {"idle_timeout": 6, "connect_timeout": 7}),
        ({"headers": None, "client_kwargs": None, "auth": None}, {}),
        (
            {"block_size": 5, "simple_links": True, "encoded": True, "cache_type": "none", "asynchronous": True},
            {},
        ),
    ],
)
def test_every_name_of_fsspec_is_followed_or_means_nothing_here(
    given: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert http_options(given) == HTTPOptions(**expected)


@pytest.mark.parametrize(
    "given", [{"heders": {}}, {"client_kwargs": {"json_serialize": print}}, {"anon": True}, {"cookies": {"a": "b"}}]
)
def test_an_unknown_option_is_a_type_error_that_names_the_nearest_known_option(given: dict[str, Any]) -> None:
    with pytest.raises(
        TypeError, match=r"unknown storage option '\w+' for an HTTP store; (did you mean|the reference)"
    ):
        HTTPStore("http://h/", **given)


@pytest.mark.parametrize(
    "given",
    [
        {"headers": {"A": "hidden"}, "client_kwargs": {"headers": {"A": "hidden-too"}}},
        {"proxy": "http://u:hidden@p", "client_kwargs": {"proxy": "http://q"}},
        {"ssl": False, "allow_invalid_certificates": False},
    ],
)
def test_options_that_contradict_each_other_are_refused_without_showing_a_secret(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="option") as caught:
        http_options(given)
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    "given",
    [
        {"headers": "x"},
        {"headers": {"A": 5}},
        {"auth": "u:hidden"},
        {"auth": ("u", None)},
        {"ssl_context": "x"},
        {"timeout": "soon"},
        {"timeout": -1},
        {"idle_timeout": 0},
        {"max_connections": 0.5},
        {"token": 5},
        {"root_certificate": 5},
    ],
)
def test_values_of_the_wrong_type_are_a_type_error_that_does_not_show_them(given: dict[str, Any]) -> None:
    with pytest.raises(TypeError) as caught:
        http_options(given)
    assert "hidden" not in str(caught.value)


def test_no_value_of_a_secret_is_in_the_repr() -> None:
    options = http_options(
        {"headers": {"A": "hidden"}, "auth": ("u", "hidden"), "token": "hidden", "proxy": "http://u:hidden@p"}
    )
    assert "hidden" not in repr(options)


def test_the_error_lists_all_names() -> None:
    assert set(HTTP_TABLE.names) - {"timeout", "verify_ssl"} == set(HTTPOptions.__dataclass_fields__)
