"""TLS contexts: one for the process, and one for each set of further certificates."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from aiozarr.errors import StoreError
from aiozarr.http1.url import custom_ssl_context, default_ssl_context
from tests.support.certificates import authority


def test_the_default_context_checks_certificates_and_names_and_is_made_once() -> None:
    context = default_ssl_context()
    assert context is default_ssl_context()
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED


def test_the_default_context_trusts_the_authorities_that_requests_trusts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    usual = default_ssl_context()
    (tmp_path / "ca.pem").write_bytes(authority().pem())
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", f"{tmp_path}/ca.pem")
    context = default_ssl_context()
    assert len(context.get_ca_certs()) > len(usual.get_ca_certs())
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", f"{tmp_path}")  # a folder of certificates
    assert default_ssl_context().verify_mode is ssl.CERT_REQUIRED
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", f"{tmp_path}/missing.pem")
    with pytest.raises(StoreError, match=r"missing\.pem.*REQUESTS_CA_BUNDLE"):
        default_ssl_context()


def test_options_that_ask_for_the_default_need_no_context_of_their_own() -> None:
    assert custom_ssl_context(None, allow_invalid=False) is None
    assert custom_ssl_context("", allow_invalid=False) is None


def test_equal_options_share_a_context_so_that_stores_share_connections() -> None:
    unchecked = custom_ssl_context(None, allow_invalid=True)
    assert unchecked is custom_ssl_context("", allow_invalid=True)
    assert unchecked is not None
    assert unchecked.verify_mode is ssl.CERT_NONE
    assert not unchecked.check_hostname
    assert default_ssl_context().verify_mode is ssl.CERT_REQUIRED


def test_further_certificates_are_trusted_besides_the_checks_that_remain() -> None:
    context = custom_ssl_context(authority().pem().decode(), allow_invalid=False)
    assert context is not None
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert len(context.get_ca_certs()) > len(ssl.create_default_context().get_ca_certs())


@pytest.mark.parametrize("text", ["no certificate", "-----BEGIN CERTIFICATE-----\nxx\n-----END CERTIFICATE-----\n"])
def test_text_without_certificates_is_an_error_that_names_the_option(text: str) -> None:
    with pytest.raises(ValueError, match="root_certificate"):
        custom_ssl_context(text, allow_invalid=False)
