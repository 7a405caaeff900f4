"""The table of storage options."""

from __future__ import annotations

import inspect
import pickle
from pathlib import Path
from typing import Any

import botocore
import botocore.config
import botocore.session
import pytest
import s3fs
from obstore.store import S3Store

from aiozarr.stores.option_table import Option
from aiozarr.stores.s3.address import S3_TABLE, S3Options, s3_options
from tests.support.upstream_names import fields_of


def test_our_names_and_those_of_fsspec_mean_the_same() -> None:
    expected = S3Options(
        key="k", secret="s", token="t", endpoint_url="http://h:1", region="eu-west-1", requester_pays=True
    )
    for given in (
        {
            "key": "k",
            "secret": "s",
            "token": "t",
            "endpoint_url": "http://h:1",
            "region": "eu-west-1",
            "requester_pays": True,
        },
        {
            "username": "k",
            "password": "s",
            "client_kwargs": {"aws_session_token": "t", "endpoint_url": "http://h:1", "region_name": "eu-west-1"},
            "s3_additional_kwargs": {"RequestPayer": "requester"},
        },
        {
            "key": "k",
            "secret": "s",
            "token": "t",
            "requester_pays": True,
            "anon": False,
            "client_kwargs": {"endpoint_url": "http://h:1", "region_name": "eu-west-1"},
        },
    ):
        options = s3_options(given)
        assert options.anon in (None, False)
        assert (options.key, options.secret, options.token) == ("k", "s", "t")
        assert options.endpoint_url == expected.endpoint_url
        assert (options.region, options.requester_pays) == ("eu-west-1", True)


def test_an_option_that_is_none_counts_as_not_given() -> None:
    assert s3_options({"key": None, "anon": None, "client_kwargs": None}) == S3Options()


@pytest.mark.parametrize("given", [{"regoin": "x"}, {"client_kwargs": {"verfiy": False}}, {"aws_allow": True}])
def test_an_unknown_option_is_a_type_error_that_names_the_nearest_known_option(given: dict[str, object]) -> None:
    with pytest.raises(TypeError, match=r"unknown storage option '\w+' for an S3 store; (did you mean|the reference)"):
        s3_options(given)


@pytest.mark.parametrize(
    "given",
    [
        {"key": "k"},
        {"secret": "hidden"},
        {"token": "hidden"},
        {"anon": True, "key": "k", "secret": "hidden"},
        {"anon": True, "profile": "p"},
        {"profile": "p", "key": "k", "secret": "hidden"},
        {"key": "k", "username": "other", "secret": "hidden"},
        {"key": "k", "secret": "hidden\r\n"},
    ],
)
def test_options_that_contradict_each_other_are_refused_without_showing_a_secret(given: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="option") as caught:
        s3_options(given)
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("given", [{"anon": "maybe"}, {"region": 5}, {"idle_timeout": 0}, {"client_kwargs": "x"}])
def test_values_of_the_wrong_type_are_a_type_error(given: dict[str, object]) -> None:
    with pytest.raises(TypeError):
        s3_options(given)


def test_secrets_are_not_in_the_repr_and_travel_in_a_pickle() -> None:
    options = s3_options({"key": "k-hidden", "secret": "s-hidden", "token": "t-hidden"})
    assert "hidden" not in repr(options)
    assert pickle.loads(pickle.dumps(options)) == options


SAMPLES: dict[str, Any] = {
    "token": "t",
    "secret": "s",
    "key": "k",
    "endpoint_url": "http://127.0.0.1:1",
    "verify": False,
    "proxy": "http://127.0.0.1:2",
    "proxies": {"https": "http://127.0.0.1:2"},
    "signature_version": "s3v4",
    "root_certificate": "PEM",
    "server_side_encryption": "aws:kms",
    "checksum_algorithm": "SHA256",
}
BY_KIND: dict[str, Any] = {"flag": True, "seconds": 3, "count": 3}
TOGETHER = {"key": {"secret": "s"}, "secret": {"key": "k"}, "token": {"key": "k", "secret": "s"}}
TOGETHER_THERE = {"access_key_id": ("secret_access_key",), "secret_access_key": ("access_key_id",)}
NOT_S3CONFIG = {"read_timeout", "proxy_url"}


def sample(option: Option) -> Any:
    return SAMPLES.get(option.name, BY_KIND.get(option.kind, "x"))


def nested(name: str, value: Any) -> dict[str, Any]:
    """Return the option as s3fs takes it."""
    for part in reversed(name.split(".")):
        value = {part: value}
    found: dict[str, Any] = value
    return found


CASES = [
    pytest.param(option, name, id=f"{option.name}-{name}")
    for option in S3_TABLE.options
    for name in (option.name, *option.fsspec)
]


@pytest.mark.parametrize(("option", "name"), CASES)
def test_each_name_of_an_option_means_the_same(option: Option, name: str) -> None:
    value = sample(option)
    if name in option.fsspec and option.spelled:
        value = option.spelled.get(value, value)
    ours = S3_TABLE.translate({option.name: sample(option)})
    assert ours == {option.name: sample(option)}
    assert S3_TABLE.translate(nested(name, value)) == ours
    rest = TOGETHER.get(option.name, {})
    assert s3_options({**nested(name, value), **rest}) == s3_options({option.name: sample(option), **rest})


@pytest.mark.parametrize("option", S3_TABLE.options, ids=lambda option: option.name)
def test_each_option_changes_something(option: Option) -> None:
    if option.name in ("signature_version", "allow_invalid_certificates"):
        assert s3_options({"signature_version": botocore.UNSIGNED}).anon is True
        assert s3_options({"allow_invalid_certificates": True}).verify is False
        return
    assert s3_options({option.name: sample(option), **TOGETHER.get(option.name, {})}) != S3Options()


@pytest.mark.parametrize(
    "option", [option for option in S3_TABLE.options if not option.ours_only], ids=lambda option: option.name
)
def test_each_option_is_one_that_s3fs_takes(option: Option, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "config").write_text("[profile x]\nregion = eu-west-1\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    native = S3_TABLE.to_fsspec({option.name: sample(option)})
    given = inspect.signature(s3fs.S3FileSystem.__init__).parameters
    for name, value in native.items():
        assert name in given or (name, value) == ("profile", "x")
        for inner in value if isinstance(value, dict) else ():
            if name == "config_kwargs":
                assert inner in botocore.config.Config.OPTION_DEFAULTS
            elif name == "client_kwargs":
                assert inner in inspect.signature(botocore.session.Session.create_client).parameters
            elif name == "s3_additional_kwargs":
                assert inner in _members_of_a_put()
    if "config_kwargs" in native:
        botocore.config.Config(**native["config_kwargs"])
    s3fs.S3FileSystem(skip_instance_cache=True, **native)
    # And what was handed over means the same, handed back.
    assert S3_TABLE.translate(native) == S3_TABLE.translate({option.name: sample(option)})


def _members_of_a_put() -> set[str]:
    model = botocore.session.Session().get_service_model("s3")
    return set(model.operation_model("PutObject").input_shape.members)


@pytest.mark.parametrize(
    ("option", "name"),
    [
        pytest.param(option, name, id=name)
        for option in S3_TABLE.options
        for name in option.obstore
        if name not in NOT_S3CONFIG
    ],
)
def test_each_name_of_obstores_is_one_that_it_takes_and_means_our_option(option: Option, name: str) -> None:
    full = name if name in fields_of("_aws.pyi", "S3Config") else f"aws_{name}"
    config = {full: sample(option)}
    config |= dict.fromkeys(TOGETHER_THERE.get(name, ()), "x")
    S3Store("bucket", config=config)  # type: ignore[arg-type]
    assert S3_TABLE.from_obstore({name: 1}) == {option.name: 1}
