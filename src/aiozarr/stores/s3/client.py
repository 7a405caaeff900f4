"""obstore's client for one bucket of S3, the TLS context of its servers, and the credentials, from the options."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from aiozarr.errors import UnauthenticatedError
from aiozarr.fork_safe_lock import ForkSafeLock
from aiozarr.http1.endpoint import custom_ssl_context
from aiozarr.stores.blocking import in_thread
from aiozarr.stores.obstore.errors import ANON
from aiozarr.stores.obstore.obstore_bucket import NO_RETRIES, client_options
from aiozarr.stores.options.s3_options import S3Options
from aiozarr.stores.s3.address import S3Configuration, S3Endpoint, Source
from aiozarr.stores.s3.presign import S3Credentials

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


REUSE_TIME = timedelta(minutes=30)
"""Credentials are searched again after this time, if they do not expire sooner."""

NEEDS_EXTRA = "AWS profiles need boto3: install aiozarr[s3]"


class NoCredentialsError(Exception):
    """There are no credentials. The client library copies this message into its error."""


def has_files() -> bool:
    """Return whether credential files of the AWS tools exist, and the package that reads them is installed."""
    paths = (
        os.environ.get("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"),
        os.environ.get("AWS_CONFIG_FILE", "~/.aws/config"),
    )
    return any(os.path.isfile(os.path.expanduser(path)) for path in paths) and find_spec("boto3") is not None


def read_configured(profile: str | None) -> S3Configuration:
    """Return the options of S3 in the files for `profile`; None: for the profile of the environment.

    Raises:
        ImportError: botocore is not installed; the message names the extra.
        ValueError: there is no such profile, or a file cannot be read.
    """
    try:
        from botocore.configprovider import ConfiguredEndpointProvider
        from botocore.exceptions import BotoCoreError
        from botocore.session import Session
    except ImportError as error:
        raise ImportError(NEEDS_EXTRA) from error
    try:
        session = Session(profile=profile)
        scoped = session.get_scoped_config()
        found = ConfiguredEndpointProvider(
            full_config=session.full_config, scoped_config=scoped, client_name="s3", environ={}
        ).provide()
        ignored = session.get_config_variable("ignore_configured_endpoint_urls")
        return S3Configuration(scoped.get("region"), None if ignored else found)
    except BotoCoreError as error:
        raise ValueError(f"the AWS configuration: {error}") from error


class ProfileCredentials:
    """Credentials of a profile for the client library, which calls this object in a thread of its own.

    All clients of a store share one object: only one of them reads a file, starts a process or asks SSO or STS.
    """

    def __init__(self, profile: str | None, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._profile = profile
        self._now = now
        self._lock = ForkSafeLock()
        self._credentials: Any = None

    def __call__(self) -> dict[str, Any]:
        """Return access key, secret, token and the time of their expiry.

        Raises:
            NoCredentialsError: there are none; the message says what was tried.
        """
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            with self._lock:
                if self._credentials is None:
                    self._credentials = self._find()
                found = self._credentials.get_frozen_credentials()
                expires = getattr(self._credentials, "_expiry_time", None)
        except (BotoCoreError, ClientError, OSError) as error:
            raise NoCredentialsError(
                f"{self._name} gave none ({type(error).__name__}); sign in anew (aws sso login), or correct it"
            ) from error
        until = self._now() + REUSE_TIME
        return {
            "access_key_id": found.access_key,
            "secret_access_key": found.secret_key,
            "token": found.token,
            "expires_at": until if expires is None else min(until, expires),
        }

    def forget(self) -> None:
        """Search credentials again at the next call: the server refuses these."""
        with self._lock:
            self._credentials = None

    @property
    def _name(self) -> str:
        name = self._profile or os.environ.get("AWS_PROFILE")
        return f"the AWS profile {name!r}" if name else "the AWS configuration"

    def _find(self) -> Any:
        import boto3

        credentials = boto3.Session(profile_name=self._profile).get_credentials()
        if credentials is None:
            raise NoCredentialsError(
                f"{self._name} has none, and none were found in the environment, by web identity, of a container or "
                "an instance"
            )
        return credentials


_TOKENS = ("AWS_SESSION_TOKEN", "AWS_TOKEN")
"""Variables of the environment, as in obstore."""


def knows_credentials(source: Source) -> bool:
    """Return whether the credentials are available without obstore, whose search does not return them."""
    return source != "chain"


def fixed_credentials(options: S3Options, source: Source, environ: Mapping[str, str]) -> S3Credentials | None:
    """Return the credentials if they are known without a request and do not expire, or None."""
    if source == "given":
        return S3Credentials(options.key or "", options.secret or "", options.token)
    if source == "environment":
        token = next((environ[name] for name in _TOKENS if environ.get(name)), None)
        return S3Credentials(environ.get("AWS_ACCESS_KEY_ID", ""), environ.get("AWS_SECRET_ACCESS_KEY", ""), token)
    return None


async def find_credentials(
    options: S3Options, source: Source, provider: Provider | None, environ: Mapping[str, str]
) -> S3Credentials | None:
    """Return the credentials, or None if requests are not signed.

    Raises:
        UnauthenticatedError: the profile gives none.
    """
    fixed = fixed_credentials(options, source, environ)
    if fixed is not None:
        return fixed
    if source == "profile" and provider is not None:
        try:
            found = await in_thread(provider)  # it may read files, run a program or ask a service
        except NoCredentialsError as error:
            raise UnauthenticatedError(f"no credentials: {error} ({ANON})") from error
        return S3Credentials(found["access_key_id"], found["secret_access_key"], found["token"])
    return None
