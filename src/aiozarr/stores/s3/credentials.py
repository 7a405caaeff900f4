"""The credentials of S3: from options, from the environment, or found by botocore."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from aiozarr.errors import UnauthenticatedError
from aiozarr.stores.bucket.token_source import TokenSource
from aiozarr.stores.s3.address import S3Configuration, S3Options, Source
from aiozarr.stores.s3.region_client import ANONYMOUS, S3Credentials

REUSE_SECONDS = 1800.0
"""Found credentials count as expired after this time, if they do not expire sooner."""

ANON = "anon=True reads public data without credentials"
NEEDS_EXTRA = "AWS profiles, SSO, roles and web identities need botocore: install aiozarr[s3]"
SEARCHED = (
    "no AWS credentials were found, neither in the options nor in the environment, nor in files of the AWS tools, by "
    "web identity, from a container's service or from an instance's metadata service"
)


class FoundCredentials(TokenSource[S3Credentials]):
    """Credentials that botocore finds in files, by SSO, from STS, or from services of containers and instances."""

    def __init__(self, options: S3Options, region: str) -> None:
        """Describe the search.

        Args:
            options: the profile, or the options of where to search.
            region: the region of the services, unless the configuration names another one.
        """
        super().__init__()
        self._options = options
        self._region = region
        self._found: Any = None  # botocore's credentials, if they expire: they renew themselves
        self._process = 0

    def record_refusal(self, token: object) -> bool:
        if token == self._token:  # the first of several requests that were refused
            self._found = None
        return super().record_refusal(token)

    def _request_token(self) -> tuple[S3Credentials, float]:
        """Return valid credentials. It may read files, run a program or ask a service."""
        try:
            from botocore.exceptions import BotoCoreError, ClientError
        except ImportError as error:
            raise UnauthenticatedError(f"no AWS credentials were given: {NEEDS_EXTRA} ({ANON})") from error
        if self._process != os.getpid():  # a thread of the parent may have held their lock at a fork
            self._found, self._process = None, os.getpid()
        try:
            found = self._found or find_credentials(self._options, self._region)
            frozen = None if found is None else found.get_frozen_credentials()
        except (BotoCoreError, ClientError, OSError, ValueError) as error:
            name = self._options.profile or os.environ.get("AWS_PROFILE")
            where = f"the AWS profile {name!r}" if name else "the AWS configuration"
            raise UnauthenticatedError(
                f"no credentials: {where} gave none ({type(error).__name__}); sign in again (aws sso login), or "
                f"correct it ({ANON})"
            ) from error
        if frozen is None:
            raise UnauthenticatedError(f"{SEARCHED} ({ANON})")
        expiry = getattr(found, "_expiry_time", None)
        self._found = None if expiry is None else found
        seconds = REUSE_SECONDS if expiry is None else min(expiry.timestamp() - time.time(), REUSE_SECONDS)
        credentials = S3Credentials(frozen.access_key, frozen.secret_key, frozen.token)
        return credentials, time.monotonic() + seconds


def make_source(
    options: S3Options, source: Source, environ: Mapping[str, str], region: str
) -> TokenSource[S3Credentials]:
    """Return the credentials of `source`.

    Args:
        options: the given options.
        source: where they come from.
        environ: the environment.
        region: as of `FoundCredentials`.
    """
    if source == "anonymous":
        return TokenSource(ANONYMOUS)
    if source == "given":
        return TokenSource(S3Credentials(options.key or "", options.secret or "", options.token))
    if source == "environment":
        token = environ.get("AWS_SESSION_TOKEN") or environ.get("AWS_TOKEN")
        key, secret = environ.get("AWS_ACCESS_KEY_ID", ""), environ.get("AWS_SECRET_ACCESS_KEY", "")
        return TokenSource(S3Credentials(key, secret, token or None))
    return FoundCredentials(options, region)


_IDENTITY = ("role_arn", "role_session_name", "web_identity_token_file")


def find_credentials(options: S3Options, region: str) -> Any:
    """Return the credentials of botocore, which renew themselves, or None if there are none.

    Options determine the search: by web identity, then from a container's service, then from an instance's. Without
    them, botocore searches as usual. The environment of the process is not changed.
    """
    from botocore.config import Config
    from botocore.credentials import AssumeRoleWithWebIdentityProvider, ContainerProvider, CredentialResolver
    from botocore.session import Session

    given = options.chain
    session: Any = Session(profile=options.profile)
    if session.get_config_variable("region") is None:
        session.set_config_variable("region", region)
    if isinstance(options.verify, str):
        session.set_config_variable("ca_bundle", options.verify)
    if options.proxy is not None:
        session.set_default_client_config(Config(proxies={"http": options.proxy, "https": options.proxy}))
    if "metadata_endpoint" in given:
        session.set_config_variable("ec2_metadata_service_endpoint", given["metadata_endpoint"])
    if "imdsv1_fallback" in given:
        session.set_config_variable("ec2_metadata_v1_disabled", not given["imdsv1_fallback"])
    if "sts_endpoint" in given:
        create = session.create_client

        def create_client(service: str, **keywords: Any) -> Any:
            return create(service, **({"endpoint_url": given["sts_endpoint"]} if service == "sts" else {}), **keywords)

        session.create_client = create_client
    resolver = session.get_component("credential_provider")
    if options.profile is None and given:
        environ = {**os.environ, **{f"AWS_{name.upper()}": value for name, value in given.items()}}
        if "container_credentials_full_uri" in given and "container_credentials_relative_uri" not in given:
            environ.pop("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", None)
        identity = {name: environ.get(f"AWS_{name.upper()}") for name in _IDENTITY}
        resolver = CredentialResolver(
            [
                AssumeRoleWithWebIdentityProvider(
                    lambda: {"profiles": {"given": identity}}, session.create_client, "given", disable_env_vars=True
                ),
                ContainerProvider(environ),
                resolver.get_provider("iam-role"),
            ]
        )
    return resolver.load_credentials()


def has_files() -> bool:
    """Return whether credential files of the AWS tools exist, and the package that reads them is installed."""
    paths = (
        os.environ.get("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"),
        os.environ.get("AWS_CONFIG_FILE", "~/.aws/config"),
    )
    return any(os.path.isfile(os.path.expanduser(path)) for path in paths) and find_spec("botocore") is not None


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
