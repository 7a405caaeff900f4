"""obstore's client for one bucket: made from our options, never after a fork, and put to rest before the exit."""

from __future__ import annotations

import atexit
import os
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from aiozarr.errors import ForkedProcessError
from aiozarr.stores.options import S3Options
from aiozarr.stores.s3.address import S3Place, Source

if TYPE_CHECKING:
    from obstore.store import ClientConfig, S3Store

WRITE_TIMEOUT = 300.0
"""Seconds for one request of obstore, the sending of its body included: it cannot watch for progress instead."""

EXIT_PAUSE = 0.05
"""Seconds. obstore's threads let go of Python objects a moment after a call has ended; one that is still at it when the
interpreter goes aborts the process."""


class _Process:
    """Whether the client library was used here, and whether it was used in the process that this one is a fork of."""

    used = False
    parent_used = False


def check_process(url: str) -> None:
    """Note that the client library is used in this process.

    Raises:
        ForkedProcessError: it was used before this process was forked; its threads are not here, so it would hang.
    """
    if _Process.parent_used:
        raise ForkedProcessError(
            "the S3 client was used before this process was forked, and cannot be used after it: start the process "
            "with the 'spawn' or 'forkserver' method, or use S3 first in the child",
            store=url,
        )
    if not _Process.used:
        _Process.used = True
        atexit.register(time.sleep, EXIT_PAUSE)


def _after_fork() -> None:
    _Process.parent_used = _Process.parent_used or _Process.used


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def make_client(
    place: S3Place, options: S3Options, source: Source, connect_timeout: float, *, keep_alive: bool = True
) -> S3Store:
    """Return an obstore client. It does not retry: the scheduler does, for all layers.

    A client that lists must not keep connections: a listing that is given up is dropped where Python drops it, outside
    of the library's own threads; its connection then comes back to the pool there, where the library panics, and the
    client is unusable from then on.

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
        client_options=_client_options(place, connect_timeout, keep_alive=keep_alive),
        retry_config={"max_retries": 0},
        credential_provider=_provider(options, source),
    )


def _client_options(place: S3Place, connect_timeout: float, *, keep_alive: bool) -> ClientConfig:
    options: ClientConfig = {
        "allow_http": not place.web.secure,
        "connect_timeout": f"{connect_timeout:g} s",
        "timeout": f"{WRITE_TIMEOUT:g} s",
    }
    if not keep_alive:
        options["pool_max_idle_per_host"] = "0"
    return options


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
