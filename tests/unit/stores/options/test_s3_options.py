"""The table of storage options."""

import pickle

import pytest

from aiozarr.stores.options.s3_options import S3Options, s3_options


def test_the_names_of_fsspec_obstore_and_the_cloud_mean_the_same() -> None:
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
            "aws_access_key_id": "k",
            "aws_secret_access_key": "s",
            "aws_session_token": "t",
            "aws_endpoint": "http://h:1",
            "aws_region": "eu-west-1",
            "aws_request_payer": "requester",
        },
        {
            "AWS_ACCESS_KEY_ID": "k",
            "SECRET_ACCESS_KEY": "s",
            "session_token": "t",
            "endpoint": "http://h:1",
            "default_region": "eu-west-1",
            "request_payer": "true",
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
def test_an_unknown_option_is_a_type_error_that_lists_the_known_ones(given: dict[str, object]) -> None:
    with pytest.raises(
        TypeError, match="knows anon, key, secret, token, profile, endpoint_url, region, requester_pays"
    ):
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
        {"key": "k", "aws_access_key_id": "other", "secret": "hidden"},
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
