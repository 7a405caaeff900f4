"""Where a bucket is and as whom it is asked: options and environment."""

import pytest

from aiozarr.errors import InvalidKeyError
from aiozarr.stores.options.s3 import S3Options, s3_options
from aiozarr.stores.s3.address import (
    Source,
    find_place,
    find_source,
    parse_url,
    sends_found_credentials_openly,
)


def test_a_url_names_bucket_and_root() -> None:
    assert parse_url("s3://bkt") == parse_url("s3://bkt/") == ("bkt", "")
    assert parse_url("s3://bkt/a b/ü%20/") == ("bkt", "a b/ü%20/")


@pytest.mark.parametrize(
    "url", ["s3://", "s3:///a", "s3://b kt/x", "s3://user:pw@bkt/x", "http://bkt/x", "bkt/x", "s3://b?x=1"]
)
def test_what_is_no_bucket_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"bucket"):
        parse_url(url)


@pytest.mark.parametrize("url", ["s3://bkt//a", "s3://bkt/a//b", "s3://bkt/../x"])
def test_a_root_that_is_no_key_is_refused(url: str) -> None:
    with pytest.raises(InvalidKeyError):
        parse_url(url)


@pytest.mark.parametrize(
    ("given", "environ", "base", "aws"),
    [
        ({}, {}, "https://bkt.s3.us-east-1.amazonaws.com", True),
        ({"region": "eu-west-1"}, {"AWS_REGION": "x"}, "https://bkt.s3.eu-west-1.amazonaws.com", True),
        ({}, {"AWS_DEFAULT_REGION": "eu-west-1"}, "https://bkt.s3.eu-west-1.amazonaws.com", True),
        ({"region": "cn-north-1"}, {}, "https://bkt.s3.cn-north-1.amazonaws.com.cn", True),
        ({"virtual_hosted": False}, {}, "https://s3.us-east-1.amazonaws.com/bkt", True),
        ({"endpoint_url": "http://h:1/"}, {"AWS_ENDPOINT_URL": "http://no"}, "http://h:1/bkt", False),
        ({"endpoint_url": "https://h/s3"}, {}, "https://h/s3/bkt", False),
        ({"endpoint_url": "https://h", "virtual_hosted": True}, {}, "https://bkt.h", False),
        ({}, {"AWS_ENDPOINT_URL": "http://a", "AWS_ENDPOINT_URL_S3": "http://b"}, "http://b/bkt", False),
        ({}, {"AWS_ENDPOINT_URL": "http://a"}, "http://a/bkt", False),
    ],
)
def test_the_address_follows_from_options_and_environment(
    given: dict[str, object], environ: dict[str, str], base: str, aws: bool
) -> None:
    place = find_place("bkt", s3_options(given), environ)
    assert (place.base, place.aws) == (base, aws)


def test_a_bucket_with_a_dot_stays_in_the_path_because_no_certificate_fits_its_name() -> None:
    assert find_place("a.b", S3Options(), {}).base == "https://s3.us-east-1.amazonaws.com/a.b"


def test_a_region_that_the_server_told_counts_before_one_that_is_named() -> None:
    assert find_place("bkt", S3Options(), {}, "eu-north-1").region == "eu-north-1"
    assert find_place("bkt", S3Options(region="us-west-2"), {}, "eu-north-1").region == "eu-north-1"


@pytest.mark.parametrize("endpoint", ["h:1", "ftp://h", "http://u:hidden@h", "http://h/?hidden=1", ""])
def test_an_endpoint_that_is_no_plain_web_address_is_refused(endpoint: str) -> None:
    with pytest.raises(ValueError, match="URL") as caught:
        find_place("bkt", S3Options(endpoint_url=endpoint), {})
    assert "hidden" not in str(caught.value)


KEYS = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}


@pytest.mark.parametrize(
    ("given", "environ", "files", "source"),
    [
        ({"anon": True}, KEYS, True, "anonymous"),
        ({}, {"AWS_SKIP_SIGNATURE": "true"}, False, "anonymous"),
        ({"anon": False}, {"AWS_SKIP_SIGNATURE": "true", **KEYS}, False, "environment"),
        ({"key": "k", "secret": "s"}, KEYS, True, "given"),
        ({"profile": "p"}, KEYS, False, "profile"),
        ({}, KEYS, True, "environment"),
        ({}, {**KEYS, "AWS_PROFILE": "p"}, True, "environment"),
        ({}, {"AWS_PROFILE": "p"}, False, "profile"),
        ({}, {}, True, "profile"),
        ({}, {}, False, "chain"),
    ],
)
def test_credentials_are_looked_for_in_the_order_of_the_clouds_own_tools(
    given: dict[str, object], environ: dict[str, str], files: bool, source: Source
) -> None:
    assert find_source(s3_options(given), environ, files) == source


@pytest.mark.parametrize(
    ("endpoint", "source", "openly"),
    [
        ("http://server.example", "environment", True),
        ("http://server.example", "chain", True),
        ("http://server.example", "given", False),
        ("http://server.example", "anonymous", False),
        ("https://server.example", "environment", False),
        ("http://127.0.0.1:9000", "environment", False),
        ("http://localhost:9000", "profile", False),
        ("http://[::1]:9000", "profile", False),
    ],
)
def test_found_credentials_sent_without_tls_to_a_named_server_are_noticed(
    endpoint: str, source: Source, openly: bool
) -> None:
    options = S3Options(endpoint_url=endpoint)
    assert sends_found_credentials_openly(find_place("bkt", options, {}), options, source) is openly
