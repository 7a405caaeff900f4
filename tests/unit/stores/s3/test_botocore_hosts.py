"""Hosts, regions and certificates are those that boto3 finds in the same options, variables and files."""

from __future__ import annotations

import random
import re
import string
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import botocore.session
import pytest
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import (
    EndpointResolutionError,
    EndpointVariantError,
    UnsupportedS3AccesspointConfigurationError,
)
from botocore.loaders import create_loader

from aiozarr.http1.response_check import Expectation
from aiozarr.stores.s3.address import S3Options, find_endpoint, s3_options
from aiozarr.stores.s3.bucket_client import S3BucketClient
from aiozarr.stores.s3.messages import region_in
from tests.support.rounds import chance_of, rounds

ARN = "arn:{}:s3:{}:123456789012:accesspoint/my-point"
REGIONS = {
    "aws": ["us-west-2", "us-east-1", "eu-central-2", "il-central-1", "ap-southeast-7"],
    "aws-us-gov": ["us-gov-west-1"],
    "aws-cn": ["cn-north-1"],
    "aws-eusc": ["eusc-de-east-1"],
    "aws-iso": ["us-iso-east-1"],
    "aws-iso-b": ["us-isob-east-1"],
    "aws-iso-e": ["eu-isoe-west-1"],
    "aws-iso-f": ["us-isof-south-1"],
}
IP = re.compile(r"//[^/]*(?:10\.0\.0\.8|\[::1\])")
_LOADER = create_loader()  # it caches the documents that describe S3
KEYS = {"AWS_ACCESS_KEY_ID": "AK", "AWS_SECRET_ACCESS_KEY": "sk"}


def test_all_partitions_and_regions_of_botocore_are_known() -> None:
    partitions = botocore.session.Session().get_data("partitions")["partitions"]
    assert {each["id"] for each in partitions} == REGIONS.keys()
    for partition in partitions:
        for region in (name for name in partition["regions"] if not name.endswith("global")):
            host = f"s3.{region}.{partition['outputs']['dnsSuffix']}"
            assert find_endpoint("bkt", S3Options(region=region), {}).base == f"https://bkt.{host}"
            # A redirect names a region by its host, and an endpoint in an option may be that host.
            assert find_endpoint("bkt", S3Options(endpoint_url=f"https://{host}"), {}).region == region
            for other in (host, host.replace("s3.", "s3-fips.dualstack.")):
                assert region_in({b"location": f"https://bkt.{other}/k".encode()}, "") == region


def one_of(rng: random.Random, *choices: Any) -> Any:
    return rng.choice(choices)


def some_bucket(rng: random.Random) -> str:
    if rng.random() < 0.15:
        partition = rng.choice(list(REGIONS))
        return ARN.format(partition, rng.choice(REGIONS[partition]))
    if rng.random() < 0.3:
        names = ("a.b.c", "my.bucket", "10.0.0.7", "1.2.3", "My.Data", "a..b", "a.-b", "ab", "data-s3alias", "b" * 64)
        return one_of(rng, *names)
    letters = one_of(rng, string.ascii_lowercase + string.digits + "-", string.ascii_letters + string.digits + "-_.")
    name = "".join(rng.choices(letters, k=rng.randint(2, 12)))
    return name if name.strip(".") and not name.lower().startswith("xn--") else "bkt"


def some_lines(rng: random.Random, folder: Path, name: str, partition: str) -> list[str]:
    """Return the lines of a profile."""
    lines = [
        one_of(rng, f"region = {rng.choice(REGIONS[partition])}", ""),
        one_of(
            rng, f"endpoint_url = http://{name}.example:9000/below", "endpoint_url = http://10.0.0.8:9000", "", "", ""
        ),
        one_of(rng, f"services = {name}", "", "", ""),
        one_of(rng, f"ca_bundle = {folder / name}.pem", ""),
        one_of(rng, "ignore_configured_endpoint_urls = true", "ignore_configured_endpoint_urls = false", "", "", ""),
        one_of(rng, "use_fips_endpoint = True", "use_fips_endpoint = 1", "", "", ""),
        one_of(rng, "use_dualstack_endpoint = true", "", "", ""),
        one_of(
            rng,
            "",
            "s3 =\n  addressing_style = virtual",
            "s3 =\n    addressing_style=path\n    use_dualstack_endpoint = true",
        ),
    ]
    return [line for line in lines if line]


def some_files(rng: random.Random, folder: Path, partition: str) -> None:
    """Write the files of the AWS tools: profiles, some of them in both files, and services."""
    text = ""
    for name in ("default", "lab"):
        header = name if name == "default" else one_of(rng, f"profile {name}", f'profile "{name}"')
        text += "\n".join([f"[{header}]", *some_lines(rng, folder, name, partition), ""])
        text += f"[services {name}]\ns3 =\n  endpoint_url = https://{name}.services.example\n"
    text += "[other]\nendpoint_url = http://no.profile\n[profile broken name]\nregion = x\n"
    (folder / "config").write_text(text)
    line = one_of(rng, f"region = {rng.choice(REGIONS[partition])}", "endpoint_url = http://shared.example", "")
    shared = [f"[lab]\n{line}"]
    (folder / "credentials").write_text(
        "\n".join([*shared, "aws_access_key_id = LAB", "aws_secret_access_key = sk", ""])
    )


def some_environment(rng: random.Random, folder: Path, partition: str) -> dict[str, str]:
    choices = {
        "AWS_DEFAULT_REGION": rng.choice(REGIONS[partition]),
        "AWS_ENDPOINT_URL": "http://environment.example",
        "AWS_ENDPOINT_URL_S3": "https://s3.environment.example:8443",
        "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": one_of(rng, "true", "false", "1"),
        "AWS_USE_FIPS_ENDPOINT": one_of(rng, "true", "false", "yes"),
        "AWS_USE_DUALSTACK_ENDPOINT": one_of(rng, "true", "TRUE", "false"),
        "AWS_CA_BUNDLE": f"{folder}/environment.pem",
        "REQUESTS_CA_BUNDLE": f"{folder}/requests.pem",
        "AWS_PROFILE": "lab",
        "AWS_DEFAULT_PROFILE": one_of(rng, "lab", "default"),
    }
    return {name: value for name, value in choices.items() if rng.random() < 0.2}


def some_options(rng: random.Random, folder: Path, partition: str) -> dict[str, Any]:
    """Return storage options as s3fs has them, whose names boto3 has as well."""
    given: dict[str, Any] = one_of(rng, {"key": "GIVEN", "secret": "sk"}, {"anon": True}, {"profile": "lab"}, {}, {})
    choices = {
        "region": rng.choice(REGIONS[partition]),
        "endpoint_url": one_of(rng, "https://given.example", "http://[::1]:9000", "http://given.example/s3"),
        "verify": one_of(rng, f"{folder}/given.pem", True, False),
    }
    given |= {name: value for name, value in choices.items() if rng.random() < 0.2}
    config: dict[str, Any] = {"s3": one_of(rng, {"addressing_style": one_of(rng, "virtual", "path")}, {}, {})}
    if rng.random() < 0.15:
        config["use_fips_endpoint"] = one_of(rng, True, False)
    if rng.random() < 0.15:
        config["s3"]["use_dualstack_endpoint"] = one_of(rng, True, False)
    return {**given, "config_kwargs": config}


def of_boto3(bucket: str, given: dict[str, Any]) -> tuple[str, str, Any]:
    """Return the URL that boto3 requests, key and region of its signature, and the certificates that it trusts."""
    config = given["config_kwargs"]
    session: Any = botocore.session.Session(profile=given.get("profile"))
    session.register_component("data_loader", _LOADER)
    client: Any = session.create_client(
        "s3",
        region_name=given.get("region"),
        endpoint_url=given.get("endpoint_url"),
        verify=given.get("verify"),
        aws_access_key_id=given.get("key"),
        aws_secret_access_key=given.get("secret"),
        config=Config(**config, signature_version=UNSIGNED if given.get("anon") else None),
    )
    sent: list[Any] = []

    def keep(request: Any, **_: Any) -> Any:
        sent.append(request)
        raise InterruptedError

    client.meta.events.register("before-send.s3.*", keep)
    with pytest.raises(InterruptedError):
        client.get_object(Bucket=bucket, Key="a/b c")
    # The global host is another name of the one of us-east-1.
    url = sent[0].url.replace("//s3.amazonaws.com", "//s3.us-east-1.amazonaws.com")
    url = url.replace(".s3.amazonaws.com", ".s3.us-east-1.amazonaws.com")
    scope = sent[0].headers.get("Authorization", b"").decode().partition("Credential=")[2].split("/")
    return url, "/".join(scope[::2][:2]), client._endpoint.http_session._verify


async def of_aiozarr(bucket: str, given: dict[str, Any], trusted: list[Any]) -> tuple[str, str, Any]:
    """Return the same of aiozarr, given the list to which the arguments of its TLS contexts are added."""
    trusted.clear()
    client = S3BucketClient(bucket, s3_options(given))
    request = client.build(await client.tokens.token(), "HEAD", "a/b c", Expectation(head=True))
    web = client._region_client.endpoint.web
    target = urlsplit(request.target)
    scope = dict(parse_qsl(target.query)).get("X-Amz-Credential", "").split("/")
    return f"{web.origin}{target.path}", "/".join(scope[::2][:2]), trusted[0] if trusted else None


def is_impossible(bucket: str, given: dict[str, Any], error: ValueError) -> bool:
    """Return whether a host's name is required that cannot be. boto3 then uses the path, or a host that is none."""
    is_required = bucket.startswith("arn:") or given["config_kwargs"]["s3"].get("addressing_style") == "virtual"
    return is_required and "virtual_hosted" in str(error)


@pytest.mark.filterwarnings("ignore:credentials found on this machine")
async def test_hosts_regions_and_certificates_are_those_of_boto3(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rng, trusted = chance_of(request), []
    for name in ("default", "lab", "environment", "requests", "given"):
        (tmp_path / f"{name}.pem").write_text(f"{name}\nTanúsítvány\n")

    def context(text: str | None, *, allow_invalid: bool) -> None:
        trusted.append(False if allow_invalid else text is None or f"{tmp_path}/{text.split()[0]}.pem")

    monkeypatch.setattr("aiozarr.stores.s3.region_client.custom_ssl_context", context)
    monkeypatch.setenv("AWS_CONFIG_FILE", f"{tmp_path}/config")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", f"{tmp_path}/credentials")
    compared = 0
    for _ in range(rounds(160)):
        partition = rng.choice(list(REGIONS))
        bucket, given = some_bucket(rng), some_options(rng, tmp_path, partition)
        some_files(rng, tmp_path, partition)
        environ = {**some_environment(rng, tmp_path, partition), **one_of(rng, KEYS, KEYS, {})}
        if not {"key", "anon", "profile"} & given.keys():
            environ |= KEYS
        what = (
            f"{bucket} {given} {environ} {(tmp_path / 'config').read_text()} {(tmp_path / 'credentials').read_text()}"
        )
        with monkeypatch.context() as patch:
            for name, value in environ.items():
                patch.setenv(name, value)
            try:
                url, scope, certificates = of_boto3(bucket, given)
            except (EndpointVariantError, UnsupportedS3AccesspointConfigurationError):
                continue  # there is no such host; aiozarr uses the region of the access point
            except EndpointResolutionError as error:
                assert "does not support FIPS" in str(error), what  # noqa: PT017
                if not bucket.startswith("arn:"):
                    with pytest.raises(ValueError, match="FIPS"):
                        await of_aiozarr(bucket, given, trusted)
                continue
            try:
                ours = await of_aiozarr(bucket, given, trusted)
            except ValueError as error:
                if is_impossible(bucket, given, error):
                    continue
                raise AssertionError(what) from error
        if "." in bucket and (given["config_kwargs"]["s3"].get("addressing_style") == "virtual" or IP.search(url)):
            continue  # boto3 puts such names before addresses, and into the path over TLS, also if it must not
        if url.startswith("http://"):
            certificates = None
        compared += 1
        assert ours == (url, scope, certificates), what
    assert compared
