"""obstore's client for one bucket of S3 and the TLS context of its servers, made from the options."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from aiozarr.http1.endpoint import custom_ssl_context
from aiozarr.stores.obstore.client_options import NO_RETRIES, client_options
from aiozarr.stores.options.s3_options import S3Options
from aiozarr.stores.s3.address import S3Endpoint, Source
from aiozarr.stores.s3.profiles import ProfileCredentials

if TYPE_CHECKING:
    from obstore.store import S3Store

Provider = Callable[[], dict[str, Any]]


def make_client(
    endpoint: S3Endpoint,
    options: S3Options,
    source: Source,
    provider: Provider | None,
    connect_timeout: float,
    *,
    keep_alive: bool = True,
) -> S3Store:
    """Return an obstore client without retries: the scheduler retries, for all stores."""
    from obstore.store import S3Store

    config: dict[str, Any] = {
        "region": endpoint.region,
        # The bucket is in the host name of a virtual-hosted address, and the last part of the path otherwise.
        "endpoint": endpoint.base if endpoint.virtual_hosted else endpoint.base.rpartition("/")[0],
        "virtual_hosted_style_request": endpoint.virtual_hosted,
        "skip_signature": source == "anonymous",
        **dict(options.upload),
        **{_OBSTORE_NAMES.get(name, name): value for name, value in options.chain},
    }
    if options.requester_pays is not None:
        config["request_payer"] = options.requester_pays
    if os.environ.get("AWS_ENDPOINT_URL_S3"):
        config["aws_endpoint_url_s3"] = config["endpoint"]  # the variable would override `endpoint`
    connection: dict[str, Any] = {
        **client_options(secure=endpoint.web.secure, connect_timeout=connect_timeout, keep_alive=keep_alive)
    }
    trusted = certificates(options)
    if options.verify is False:
        connection["allow_invalid_certificates"] = True
    elif trusted is not None:
        connection["root_certificate"] = trusted
    if options.proxy is not None:
        connection["proxy_url"] = options.proxy
    return S3Store(
        endpoint.bucket,
        config=config,  # type: ignore[arg-type]
        client_options=connection,  # type: ignore[arg-type]
        retry_config={"max_retries": NO_RETRIES},
        credential_provider=provider,  # type: ignore[arg-type]
    )


_OBSTORE_NAMES = {"sts_endpoint": "aws_endpoint_url_sts"}


def make_provider(options: S3Options, source: Source) -> Provider | None:
    """Return the function that gives the client its credentials; None: it searches for them, or needs none."""
    if source == "given":
        # Not as options of the client: it would add a session token from the environment.
        credentials = {
            "access_key_id": options.key,
            "secret_access_key": options.secret,
            "token": options.token,
            "expires_at": None,
        }
        return lambda: credentials
    if source == "profile":
        return ProfileCredentials(options.profile)
    return None


def certificates(options: S3Options) -> str | None:
    """Return the certificates in PEM that are trusted besides those of the system, or None.

    They are given by options, or by the variable of the AWS tools.

    Raises:
        ValueError: their file cannot be read.
    """
    path = options.verify
    if path is None and options.root_certificate is None:
        path = os.environ.get("AWS_CA_BUNDLE") or None
    if not isinstance(path, str):
        return options.root_certificate
    try:
        with open(path, encoding="ascii") as file:
            return file.read() + (options.root_certificate or "")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"the certificates in {path!r} cannot be read") from error


def ssl_context_of(options: S3Options) -> ssl.SSLContext | None:
    """Return the TLS context for requests that obstore does not send; None: the default one."""
    return custom_ssl_context(certificates(options), allow_invalid=options.verify is False)
