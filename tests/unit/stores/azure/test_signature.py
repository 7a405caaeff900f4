"""One signature for all blobs of a container."""

import time
from urllib.parse import parse_qs

import pytest

from aiozarr.stores.azure import credentials
from aiozarr.stores.azure.address import EMULATOR_KEY
from aiozarr.stores.azure.credentials import ContainerSignatures, sign_container


def test_a_signature_says_what_it_allows_and_until_when() -> None:
    query = sign_container("devstoreaccount1", EMULATOR_KEY, "data", "r", 1_700_000_000.9)
    said = {name: values[0] for name, values in parse_qs(query).items()}
    # Computed once, and accepted by the emulator's check of the same fields.
    assert said.pop("sig") == "LGcm237sKzMs+PUs5n87xYCSUmgYaLJTjNidJrXXkdo="
    assert said == {"sv": "2021-12-02", "se": "2023-11-14T22:13:20Z", "sr": "c", "sp": "r"}


@pytest.mark.parametrize(
    "other",
    [("acct", EMULATOR_KEY, "data", "d"), ("acct", EMULATOR_KEY, "other", "r"), ("another", EMULATOR_KEY, "data", "r")],
)
def test_it_is_for_this_account_container_and_use_alone(other: tuple[str, str, str, str]) -> None:
    assert sign_container("acct", EMULATOR_KEY, "data", "r", 0.0)[-60:] != sign_container(*other, 0.0)[-60:]


def test_a_signature_is_used_for_a_quarter_of_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    monkeypatch.setattr(credentials.time, "monotonic", lambda: now)
    monkeypatch.setattr(credentials.time, "time", lambda: now)
    signatures = ContainerSignatures("acct", EMULATOR_KEY, "data")
    first = signatures.query("r")
    now += credentials.REUSE_SECONDS - 1
    assert signatures.query("r") == first
    assert signatures.query("d") != first
    now += 2
    assert signatures.query("r") != first


def test_a_refused_signature_is_made_anew_unless_it_was_new(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    monkeypatch.setattr(credentials.time, "monotonic", lambda: now)
    monkeypatch.setattr(credentials.time, "time", lambda: now)
    signatures = ContainerSignatures("acct", EMULATOR_KEY, "data")
    first = signatures.query("r")
    assert not signatures.renew(first)
    now += credentials.MIN_AGE_SECONDS
    assert signatures.renew(first)
    second = signatures.query("r")
    assert second != first
    # Of many requests that were refused with the same signature, the first has renewed it for all.
    assert signatures.renew(first)
    assert signatures.query("r") == second


def test_a_refusal_corrects_the_clock_by_the_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials.time, "time", lambda: 1_000_000.0)
    signatures = ContainerSignatures("acct", EMULATOR_KEY, "data")
    first = signatures.query("r")
    assert signatures.renew(first, 1_090_000.0)
    second = signatures.query("r")
    assert parse_qs(second)["se"] == ["1970-01-13T15:46:40Z"]
    assert signatures.renew(first, 1_090_001.0)  # of a request that was sent before
    assert not signatures.renew(second, 1_090_001.0)


def test_the_secondary_region_signs_as_the_account() -> None:
    assert ContainerSignatures("acct-secondary", EMULATOR_KEY, "data")._account == "acct"
