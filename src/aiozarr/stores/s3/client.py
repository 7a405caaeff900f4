"""obstore's client for one bucket of S3, made from our options."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from aiozarr.stores.obstore.client import NO_RETRIES, client_options
from aiozarr.stores.options.s3 import S3Options
from aiozarr.stores.s3.address import S3Place, Source

if TYPE_CHECKING:
    from obstore.store import S3Store


def make_client(
    place: S3Place, options: S3Options, source: Source, connect_timeout: float, *, keep_alive: bool = True
) -> S3Store:
    """Return an obstore client. It does not retry: the scheduler does, for all layers.

    Raises:
        ImportError: a profile is asked for without the package that reads profiles; names the extra.
    """
    from obstore.store import S3Store

    config: dict[str, Any] = {
        "region": place.region,
        # The bucket is in the host name of a virtual-hosted address, and behind the endpoint's path otherwise.
        "endpoint": place.base if place.virtual_hosted else place.base.rpartition("/")[0],
        "virtual_hosted_style_request": place.virtual_hosted,
        "skip_signature": source == "anonymous",
    }
    if options.requester_pays is not None:
        config["request_payer"] = options.requester_pays
    if os.environ.get("AWS_ENDPOINT_URL_S3"):
        config["aws_endpoint_url_s3"] = config["endpoint"]  # the variable would win over `endpoint`
    return S3Store(
        place.bucket,
        config=config,  # type: ignore[arg-type]
        client_options=client_options(secure=place.web.secure, connect_timeout=connect_timeout, keep_alive=keep_alive),
        retry_config={"max_retries": NO_RETRIES},
        credential_provider=_provider(options, source),
    )


def _provider(options: S3Options, source: Source) -> Any:
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
        try:
            import boto3
            from obstore.auth.boto3 import Boto3CredentialProvider
        except ImportError as error:
            raise ImportError("AWS profiles need boto3: install aiozarr[s3]") from error
        return Boto3CredentialProvider(session=boto3.Session(profile_name=options.profile))
    return None


def has_credential_files() -> bool:
    """Return whether there are credential files of the AWS tools, and the package that reads them."""
    paths = (
        os.environ.get("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"),
        os.environ.get("AWS_CONFIG_FILE", "~/.aws/config"),
    )
    return any(os.path.isfile(os.path.expanduser(path)) for path in paths) and find_spec("boto3") is not None
