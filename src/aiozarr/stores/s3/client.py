"""obstore's client for one bucket of S3, made from our options."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from aiozarr.stores.obstore.client import NO_RETRIES, client_options
from aiozarr.stores.options.s3 import S3Options
from aiozarr.stores.s3.address import S3Place, Source
from aiozarr.stores.s3.profiles import ProfileCredentials
from aiozarr.stores.s3.trust import certificates

if TYPE_CHECKING:
    from obstore.store import S3Store

Provider = Callable[[], dict[str, Any]]


def make_client(
    place: S3Place,
    options: S3Options,
    source: Source,
    provider: Provider | None,
    connect_timeout: float,
    *,
    keep_alive: bool = True,
) -> S3Store:
    """Return an obstore client. It does not retry: the scheduler does, for all layers."""
    from obstore.store import S3Store

    config: dict[str, Any] = {
        "region": place.region,
        # The bucket is in the host name of a virtual-hosted address, and behind the endpoint's path otherwise.
        "endpoint": place.base if place.virtual_hosted else place.base.rpartition("/")[0],
        "virtual_hosted_style_request": place.virtual_hosted,
        "skip_signature": source == "anonymous",
        **dict(options.upload),
        **{_CLIENTS_NAME.get(name, name): value for name, value in options.chain},
    }
    if options.requester_pays is not None:
        config["request_payer"] = options.requester_pays
    if os.environ.get("AWS_ENDPOINT_URL_S3"):
        config["aws_endpoint_url_s3"] = config["endpoint"]  # the variable would win over `endpoint`
    connection: dict[str, Any] = {
        **client_options(secure=place.web.secure, connect_timeout=connect_timeout, keep_alive=keep_alive)
    }
    trusted = certificates(options)
    if options.verify is False:
        connection["allow_invalid_certificates"] = True
    elif trusted is not None:
        connection["root_certificate"] = trusted
    if options.proxy is not None:
        connection["proxy_url"] = options.proxy
    return S3Store(
        place.bucket,
        config=config,  # type: ignore[arg-type]
        client_options=connection,  # type: ignore[arg-type]
        retry_config={"max_retries": NO_RETRIES},
        credential_provider=provider,  # type: ignore[arg-type]
    )


_CLIENTS_NAME = {"sts_endpoint": "aws_endpoint_url_sts"}


def make_provider(options: S3Options, source: Source) -> Provider | None:
    """Return what tells the client its credentials; None: it looks for them itself, or needs none."""
    if source == "given":
        # Not as options of the client, which would add a session token that it finds in the environment.
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
