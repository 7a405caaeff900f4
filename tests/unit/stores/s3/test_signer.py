"""Signed queries are those that botocore makes, whatever is listed, wherever, and with which credentials."""

import time
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import botocore.auth
import botocore.credentials
import pytest
from botocore.awsrequest import AWSRequest

from aiozarr.http1.request import quote_key
from aiozarr.stores.s3.address import S3Options, find_endpoint
from aiozarr.stores.s3.messages import listing_query
from aiozarr.stores.s3.region_client import SAME_MOMENT_SECONDS, S3Credentials, Signer, canonical_query

KEY, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
ARN = "arn:aws:s3:us-west-2:123456789012:accesspoint/my-point"


def of_botocore(
    url: str,
    query: dict[str, str],
    region: str,
    token: str | None,
    method: str = "GET",
    headers: dict[str, str] | None = None,
) -> str:
    """Return the query that botocore signs now."""
    request = AWSRequest(method, url, params=query, headers=headers)
    credentials = botocore.credentials.Credentials(KEY, SECRET, token)
    botocore.auth.S3SigV4QueryAuth(credentials, "s3", region, expires=3600).add_auth(request)
    return urlsplit(str(request.url)).query


def moment_of(query: str) -> float:
    """Return the time that a signature tells."""
    return datetime.strptime(dict(parse_qsl(query))["X-Amz-Date"], "%Y%m%dT%H%M%S%z").timestamp()


@pytest.mark.parametrize("token", [None, "IQoJb3JpZ2luX2VjE//+=&x"])
@pytest.mark.parametrize("prefix", ["", "a/", "some where/ü%20+&=?#~*'()!", "\U0001f600/\u2028"])
@pytest.mark.parametrize(
    ("bucket", "options"),
    [
        ("bkt", {}),
        ("dotted.bkt", {}),
        ("bkt", {"region": "cn-north-1"}),
        (ARN, {}),
        ("bkt", {"endpoint_url": "http://localhost:9000"}),
        ("bkt", {"endpoint_url": "http://[::1]:9000/below/this"}),
        ("bkt", {"endpoint_url": "https://server.example", "virtual_hosted": True}),
    ],
)
def test_a_query_is_signed_as_botocore_signs_it(
    bucket: str, options: dict[str, Any], prefix: str, token: str | None
) -> None:
    place = find_endpoint(bucket, S3Options(**options), {})
    query = {**listing_query(prefix, "/", "t+/= "), "x-amz-request-payer": "requester"}
    web = place.web
    path = web.path or "/"
    expected = of_botocore(f"{web.origin}{path}", query, place.region, token)
    signer = Signer(S3Credentials(KEY, SECRET, token), place.region, web.authority, lambda: moment_of(expected))
    signed = signer.target("GET", path, canonical_query(query)).removeprefix(f"{path}?")
    assert sorted(signed.split("&")) == sorted(expected.split("&"))
    assert dict(parse_qsl(signed, keep_blank_values=True)).items() >= query.items()
    assert signed.rpartition("&")[2].startswith("X-Amz-Signature=")


def test_names_are_signed_in_their_own_order_also_where_one_begins_another() -> None:
    query = {"a-b": "1", "a": "2", "a.b": "3", "a1": "5"}
    assert canonical_query({**query, "ä": "4"}) == "%C3%A4=4&a=2&a-b=1&a.b=3&a1=5"  # "-", "." and digits before "="
    expected = of_botocore("https://h/", query, "us-east-1", None)
    signer = Signer(S3Credentials(KEY, SECRET), "us-east-1", "h", lambda: moment_of(expected))
    assert signer.target("GET", "/", canonical_query(query)).endswith(expected.rpartition("&")[2])


def test_secrets_are_not_shown() -> None:
    assert repr(S3Credentials("k-hidden", "s-hidden", "t-hidden")) == "S3Credentials()"
    assert "hidden" not in Signer(S3Credentials("k", "s-hidden"), "us-east-1", "h").target("GET", "/")


@pytest.mark.parametrize("token", [None, "IQoJb3JpZ2luX2VjE//+=&x"])
@pytest.mark.parametrize("query", ["", "delete=", "partNumber=1&uploadId=a%2Fb%2B"])
@pytest.mark.parametrize(
    "headers", [{}, {"x-amz-checksum-crc32c": "4waSgw=="}, {"if-match": '"v"', "content-md5": "x=="}]
)
def test_headers_are_signed_as_botocore_signs_them(query: str, token: str | None, headers: dict[str, str]) -> None:
    request = AWSRequest("POST", f"https://h:9000/bkt/a%20b?{query}", headers=dict(headers))
    credentials = botocore.credentials.Credentials(KEY, SECRET, token)
    auth: Any = botocore.auth.S3SigV4Auth(credentials, "s3", "eu-west-1")
    auth._should_sha256_sign_payload = lambda _: False  # over TLS nothing would be gained by it
    auth.add_auth(request)
    expected = {name.lower(): value for name, value in request.headers.items()}
    moment = datetime.strptime(expected["x-amz-date"], "%Y%m%dT%H%M%S%z").timestamp()
    signer = Signer(S3Credentials(KEY, SECRET, token), "eu-west-1", "h:9000", lambda: moment)
    assert signer.signed_headers("POST", "/bkt/a%20b", query, headers) == expected


@pytest.mark.parametrize("token", [None, "IQoJb3JpZ2luX2VjE//+=&x"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE"])
@pytest.mark.parametrize("key", ["a", "c/0/1", "some where/ü%20+&=?#~*'()!", "\U0001f600/\u2028"])
@pytest.mark.parametrize("options", [{}, {"endpoint_url": "http://[::1]:9000/below"}])
@pytest.mark.parametrize(
    "headers", [{}, {"x-amz-checksum-crc32c": "4waSgw=="}, {"if-match": '"v"', "content-md5": "x=="}]
)
def test_a_target_is_signed_as_botocore_signs_it(
    options: dict[str, Any],
    key: str,
    method: str,
    token: str | None,
    headers: dict[str, str],
) -> None:
    place = find_endpoint("bkt", S3Options(**options), {})
    web, payer = place.web, {"x-amz-request-payer": "requester"}
    path = f"{web.path}/{quote_key(key)}"
    expected = of_botocore(f"{web.origin}{path}", payer, place.region, token, method, headers)
    signer = Signer(S3Credentials(KEY, SECRET, token), place.region, web.authority, lambda: moment_of(expected))
    signer.target("GET", "/another")
    target = signer.target(method, path, canonical_query(payer), headers)
    assert target.startswith(f"{path}?")
    assert sorted(target.removeprefix(f"{path}?").split("&")) == sorted(expected.split("&"))


def test_a_target_is_signed_anew_after_a_minute_and_on_another_day(monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime(2026, 2, 28, 23, 59, 30, tzinfo=UTC).timestamp()
    monkeypatch.setattr(time, "time", lambda: now)
    signer = Signer(S3Credentials(KEY, SECRET), "us-east-1", "h")

    def expected() -> str:
        return Signer(S3Credentials(KEY, SECRET), "us-east-1", "h").target("GET", "/k")

    first = signer.target("GET", "/k")
    assert first == expected()
    now += SAME_MOMENT_SECONDS - 1
    assert signer.target("GET", "/k") == first
    now += 1
    assert signer.target("GET", "/k") == expected() != first
    now -= 3600  # the clock was set back
    assert signer.target("GET", "/k") == expected()
