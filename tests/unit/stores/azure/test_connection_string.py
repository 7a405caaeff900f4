"""Connection strings as Azure's portal and tools hand them out."""

import pytest

from aiozarr.stores.azure.connection_string import EMULATOR_KEY, ConnectionString, parse_connection_string


def test_an_account_and_its_key_are_found_with_the_endpoints_of_the_account() -> None:
    text = "DefaultEndpointsProtocol=https;AccountName=acct;AccountKey=a2V5PQ==;EndpointSuffix=core.windows.net"
    assert parse_connection_string(text) == ConnectionString(
        "acct",
        "a2V5PQ==",
        None,
        "https://acct.blob.core.windows.net",
        "https://acct-secondary.blob.core.windows.net",
    )


def test_the_clouds_of_governments_have_another_suffix() -> None:
    found = parse_connection_string("AccountName=acct;AccountKey=a2V5;EndpointSuffix=core.usgovcloudapi.net")
    assert found.endpoint == "https://acct.blob.core.usgovcloudapi.net"


def test_a_signature_comes_with_an_endpoint_and_loses_its_question_mark() -> None:
    text = "BlobEndpoint=https://acct.blob.core.windows.net;SharedAccessSignature=?sv=2021&sig=a%3D"
    assert parse_connection_string(text) == ConnectionString(
        None, None, "sv=2021&sig=a%3D", "https://acct.blob.core.windows.net"
    )


def test_names_are_found_in_any_case_and_other_services_are_left_out() -> None:
    text = " accountname = acct ; ACCOUNTKEY=a2V5; QueueEndpoint=https://q ;;"
    assert parse_connection_string(text).key == "a2V5"


def test_development_storage_is_the_emulator_with_its_public_key() -> None:
    found = parse_connection_string("UseDevelopmentStorage=true")
    assert (found.account, found.key) == ("devstoreaccount1", EMULATOR_KEY)
    assert found.endpoint == "http://127.0.0.1:10000/devstoreaccount1"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "acct",
        "AccountName",
        "AccountKey=hidden",
        "AccountName=a;AccountName=b;AccountKey=hidden",
        "=hidden",
        "AccountName=else.where/;AccountKey=hidden",
        "BlobEndpoint=https://h;SharedAccessSignature=sig=hidden b",
    ],
)
def test_an_invalid_connection_string_is_an_error_that_does_not_show_it(text: str) -> None:
    with pytest.raises(ValueError, match="connection string") as raised:
        parse_connection_string(text)
    assert "hidden" not in str(raised.value)


def test_secrets_do_not_show() -> None:
    found = parse_connection_string("AccountName=acct;AccountKey=hidden;SharedAccessSignature=sig=hidden")
    assert "hidden" not in repr(found)
