"""Where a bucket is and as whom it is asked: options and environment."""

import warnings

import pytest

from aiozarr.errors import InvalidKeyError
from aiozarr.stores import ObjectStore
from aiozarr.stores.s3.address import (
    NOTHING_CONFIGURED,
    S3Options,
    Source,
    find_endpoint,
    find_source,
    parse_url,
    s3_options,
)


def test_a_url_names_bucket_and_root() -> None:
    assert parse_url("s3://bkt") == parse_url("s3://bkt/") == ("bkt", "")
    assert parse_url("s3://bkt/a b/ü%20/") == ("bkt", "a b/ü%20/")


@pytest.mark.parametrize(
    "url",
    [
        "s3://",
        "s3:///a",
        "s3://b kt/x",
        "s3://user:pw@bkt/x",
        "http://bkt/x",
        "bkt/x",
        "s3://b?x=1",
        "s3://..",
        "s3://./a",
    ],
)
def test_an_invalid_bucket_url_is_refused(url: str) -> None:
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
    place = find_endpoint("bkt", s3_options(given), environ)
    assert (place.base, place.aws) == (base, aws)


@pytest.mark.parametrize("region", ["else.where/", "../x", "eu west", "@h"])
def test_a_region_cannot_name_another_host(region: str) -> None:
    for options, environ in ((S3Options(region=region), {}), (S3Options(), {"AWS_REGION": region})):
        with pytest.raises(ValueError, match="region"):
            find_endpoint("bkt", options, environ)
    place = find_endpoint("bkt", S3Options(region="Region_One", endpoint_url="http://h"), {})
    assert place.base == "http://h/bkt"


def test_a_bucket_with_a_dot_stays_in_the_path_because_no_certificate_fits_its_name() -> None:
    assert find_endpoint("a.b", S3Options(), {}).base == "https://s3.us-east-1.amazonaws.com/a.b"


def test_a_region_that_the_server_told_counts_before_one_that_is_named() -> None:
    assert find_endpoint("bkt", S3Options(), {}, "eu-north-1").region == "eu-north-1"
    assert find_endpoint("bkt", S3Options(region="us-west-2"), {}, "eu-north-1").region == "eu-north-1"


ARN = "arn:aws:s3:us-west-2:123456789012:accesspoint/my-point"


def test_an_access_point_stands_for_a_bucket() -> None:
    assert parse_url(f"s3://{ARN}/a/b") == (ARN, "a/b/")
    assert parse_url(f"s3://{ARN.replace('/my-point', ':my-point')}") == (ARN, "")
    place = find_endpoint(ARN, S3Options(region="eu-west-1"), {})
    assert place.base == "https://my-point-123456789012.s3-accesspoint.us-west-2.amazonaws.com"
    assert (place.region, place.aws, place.virtual_hosted) == ("us-west-2", True, True)
    assert find_endpoint(ARN.replace("us-west-2", "cn-north-1"), S3Options(), {}).base.endswith(".amazonaws.com.cn")


@pytest.mark.parametrize(
    "bucket",
    [
        "arn:aws:s3::123456789012:accesspoint/mfzwi23gnjvgw.mrap",
        "arn:aws:s3-outposts:us-west-2:123456789012:outpost/op-1/accesspoint/x",
        "arn:aws:s3-object-lambda:us-west-2:123456789012:accesspoint/x",
        "arn:aws:s3:::bucket",
        ARN + "!/x",
    ],
)
def test_other_arns_are_refused_with_the_form_of_those_that_are_not(bucket: str) -> None:
    with pytest.raises(ValueError, match=r"access point"):
        parse_url(f"s3://{bucket}/a")


def test_directory_buckets_are_refused() -> None:
    with pytest.raises(ValueError, match="S3 Express"):
        parse_url("s3://name--usw2-az1--x-s3/a")


def test_s3a_is_s3_and_s3n_is_nothing() -> None:
    assert parse_url("s3a://bkt/a") == parse_url("S3://bkt/a") == ("bkt", "a/")
    with pytest.raises(ValueError, match="s3://"):
        parse_url("s3n://bkt/a")


@pytest.mark.parametrize(
    ("endpoint", "region", "base"),
    [
        ("https://s3.amazonaws.com", None, "https://bkt.s3.us-east-1.amazonaws.com"),
        ("https://s3.eu-west-1.amazonaws.com/", None, "https://bkt.s3.eu-west-1.amazonaws.com"),
        ("https://s3-eu-west-1.amazonaws.com", None, "https://bkt.s3.eu-west-1.amazonaws.com"),
        ("https://s3.amazonaws.com", "us-west-2", "https://bkt.s3.us-west-2.amazonaws.com"),
        ("https://s3.cn-north-1.amazonaws.com.cn", None, "https://bkt.s3.cn-north-1.amazonaws.com.cn"),
    ],
)
def test_the_plain_endpoints_of_aws_are_aws(endpoint: str, region: str | None, base: str) -> None:
    place = find_endpoint("bkt", S3Options(endpoint_url=endpoint, region=region), {})
    assert (place.base, place.aws, place.fixed) == (base, True, False)


@pytest.mark.parametrize(
    ("name", "region", "host"),
    [
        ("fips-us-west-2", "us-west-2", "s3-fips.us-west-2"),
        ("us-gov-west-1-fips", "us-gov-west-1", "s3-fips.us-gov-west-1"),
        ("aws-global", "us-east-1", "s3.us-east-1"),
    ],
)
def test_old_names_of_regions_are_translated(name: str, region: str, host: str) -> None:
    place = find_endpoint("bkt", S3Options(region=name), {})
    assert (place.base, place.region) == (f"https://bkt.{host}.amazonaws.com", region)


@pytest.mark.parametrize(
    ("endpoint", "aws"),
    [
        ("https://s3-fips.us-east-1.amazonaws.com", True),
        ("https://bucket.vpce-1a2b.s3.us-east-1.vpce.amazonaws.com", True),
        ("https://amazonaws.com.evil.example", False),
        ("https://account.r2.cloudflarestorage.com", False),
        ("https://storage.googleapis.com", False),
        ("https://ceph.example/s3/prefix", False),
    ],
)
def test_other_endpoints_stay_as_they_are_written(endpoint: str, aws: bool) -> None:
    place = find_endpoint("bkt", S3Options(endpoint_url=endpoint, region="auto"), {}, "told-1")
    assert (place.base, place.aws, place.fixed, place.region) == (f"{endpoint}/bkt", aws, True, "told-1")


def test_the_error_of_an_endpoint_without_a_scheme_names_the_scheme() -> None:
    with pytest.raises(ValueError, match="the URL of an endpoint must begin with http:// or https://"):
        find_endpoint("bkt", S3Options(endpoint_url="minio:9000"), {})


def test_endpoints_of_the_environment_can_be_ignored() -> None:
    environ = {"AWS_ENDPOINT_URL": "http://a", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"}
    assert find_endpoint("bkt", S3Options(), environ).aws
    assert not find_endpoint("bkt", S3Options(endpoint_url="http://b"), environ).aws


@pytest.mark.parametrize("endpoint", ["h:1", "ftp://h", "http://u:hidden@h", "http://h/?hidden=1", ""])
def test_an_endpoint_that_is_no_plain_web_address_is_refused(endpoint: str) -> None:
    with pytest.raises(ValueError, match="URL") as caught:
        find_endpoint("bkt", S3Options(endpoint_url=endpoint), {})
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
    endpoint: str, source: Source, openly: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiozarr.stores.s3.bucket_client.find_source", lambda *_: source)
    monkeypatch.setattr("aiozarr.stores.s3.bucket_client.read_configured", lambda _: NOTHING_CONFIGURED)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ObjectStore("s3://bkt", endpoint_url=endpoint)
    assert any("without TLS" in str(warning.message) for warning in caught) is openly


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://127.0.0.1:9000",
        "http://[::1]:9000",
        "https://10.0.0.7",
        "http://2130706433",
        "http://0x7f.1",
        "http://1",
    ],
)
def test_a_bucket_is_put_in_front_of_no_address(endpoint: str) -> None:
    with pytest.raises(ValueError, match="virtual_hosted' cannot put the bucket into the host name, because the"):
        find_endpoint("bkt", s3_options({"endpoint_url": endpoint, "virtual_hosted": True}), {})
    given = {"endpoint_url": endpoint, "config_kwargs": {"s3": {"addressing_style": "virtual"}}}
    with pytest.raises(ValueError, match="virtual_hosted"):
        find_endpoint("bkt", s3_options(given), {})
    assert find_endpoint("bkt", s3_options({"endpoint_url": endpoint}), {}).base == f"{endpoint}/bkt"


NO_LABELS = ["xn--bkt", "MyData", "my_data", "-b-", "b-", "ab", "10.0.0.7", "a..b", "a.-b", "b" * 64, "A.b"]


@pytest.mark.parametrize("bucket", NO_LABELS)
@pytest.mark.parametrize("endpoint", [None, "http://store.example", "https://store.example:9000/below"])
@pytest.mark.parametrize("configured", [{}, {"s3.addressing_style": "virtual"}])
def test_a_bucket_that_is_no_host_name_stays_in_the_path_unless_an_option_forbids_it(
    bucket: str, endpoint: str | None, configured: dict[str, str]
) -> None:
    place = find_endpoint(bucket, S3Options(endpoint_url=endpoint), {}, None, configured)
    assert place.base == f"{endpoint or 'https://s3.us-east-1.amazonaws.com'}/{bucket}"
    with pytest.raises(ValueError, match="cannot be part of a host name; set virtual_hosted=False"):
        find_endpoint(bucket, S3Options(endpoint_url=endpoint, virtual_hosted=True), {}, None, configured)


def test_credentials_in_a_url_are_refused_without_showing_them() -> None:
    for url in ("s3://AK:SECRET@bkt/x", "s3://AK%3ASECRET%40bkt/x"):
        with pytest.raises(
            ValueError, match="the URL of a bucket must not contain credentials; use the options"
        ) as caught:
            parse_url(url)
        assert "SECRET" not in str(caught.value)
