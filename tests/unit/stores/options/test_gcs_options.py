"""The storage options of Google Cloud Storage, key by key."""

from __future__ import annotations

from typing import Any

import pytest

from aiozarr.stores.gcs.address import GCS_TABLE, GcsOptions, gcs_options


class Credentials:
    valid = True

    def refresh(self, request: object) -> None: ...


CREDENTIALS = Credentials()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, GcsOptions()),
        ({"anon": True}, GcsOptions(anon=True)),
        ({"token": "anon"}, GcsOptions(anon=True)),
        ({"token": None, "anon": None}, GcsOptions()),
        ({"token": "google_default"}, GcsOptions(token="google_default")),
        ({"token": "cloud"}, GcsOptions(token="cloud")),
        ({"token": "ya29.abc"}, GcsOptions(token="ya29.abc")),
        ({"token": {"type": "service_account"}}, GcsOptions(token={"type": "service_account"})),
        ({"token": CREDENTIALS}, GcsOptions(token=CREDENTIALS)),
        ({"access": "read_only"}, GcsOptions(access="read_only")),
        ({"project": "mine"}, GcsOptions(project="mine")),
        ({"requester_pays": "mine"}, GcsOptions(requester_pays="mine")),
        ({"requester_pays": True, "project": "mine"}, GcsOptions(requester_pays=True, project="mine")),
        ({"requester_pays": "true", "project": "mine"}, GcsOptions(requester_pays=True, project="mine")),
        ({"requester_pays": False}, GcsOptions(requester_pays=False)),
        ({"endpoint_url": "http://h:1"}, GcsOptions(endpoint_url="http://h:1")),
        ({"max_connections": 3}, GcsOptions(max_connections=3)),
        ({"idle_timeout": 3.5}, GcsOptions(idle_timeout=3.5)),
        ({"timeout": 3.5}, GcsOptions(idle_timeout=3.5)),
        ({"timeout": 3.5, "idle_timeout": 20.0}, GcsOptions(idle_timeout=3.5)),
        ({"connect_timeout": 3}, GcsOptions(connect_timeout=3)),
        ({"consistency": "md5", "block_size": 5, "cache_timeout": 1, "asynchronous": True}, GcsOptions()),
    ],
)
def test_all_names_of_an_option_have_one_meaning(given: dict[str, Any], expected: GcsOptions) -> None:
    assert gcs_options(given) == expected


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"tokn": 1}, TypeError, "for a GCS store; did you mean 'token'"),
        ({"token": 5}, TypeError, "or google-auth credentials"),
        ({"token": "browser"}, ValueError, "gcloud auth application-default login"),
        ({"token": "cache"}, ValueError, "gcloud auth application-default login"),
        ({"token": ""}, ValueError, "empty"),
        ({"token": "a\r\nb"}, ValueError, "control"),
        ({"token": "t", "anon": True}, ValueError, "anon"),
        ({"token": "anon", "anon": False}, ValueError, "contradict"),
        ({"access": "all"}, ValueError, "read_only"),
        ({"requester_pays": True}, ValueError, "project"),
        ({"requester_pays": 1.5}, TypeError, "requester_pays"),
        ({"requester_pays": "a\r\nb"}, ValueError, "project"),
        ({"max_connections": 0}, TypeError, "above 0"),
        ({"endpoint_url": "http://a", "gs": 1}, TypeError, "unknown"),
    ],
)
def test_contradictory_options_are_errors(given: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        gcs_options(given)
    assert "ya29" not in str(caught.value)


def test_secrets_are_not_shown() -> None:
    assert "ya29" not in repr(gcs_options({"token": "ya29.abc"}))


@pytest.mark.parametrize(
    ("options", "payer"),
    [
        (GcsOptions(), None),
        (GcsOptions(project="mine"), None),
        (GcsOptions(project="mine", requester_pays=True), "mine"),
        (GcsOptions(project="mine", requester_pays="yours"), "yours"),
        (GcsOptions(project="mine", requester_pays=False), None),
    ],
)
def test_the_project_that_pays_is_named_only_where_it_shall(options: GcsOptions, payer: str | None) -> None:
    assert options.payer == payer


def test_the_file_system_of_fsspec_is_given_its_own_names() -> None:
    given = {"token": "t", "project": "p", "endpoint_url": "http://h", "idle_timeout": 3.0, "consistency": "md5"}
    assert GCS_TABLE.to_fsspec(given) == {
        "token": "t",
        "project": "p",
        "endpoint_url": "http://h",
        "timeout": 3.0,
        "consistency": "md5",
    }
