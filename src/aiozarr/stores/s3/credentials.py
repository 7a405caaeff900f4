"""The credentials of S3: from options, from the environment, or found by botocore."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from aiozarr.errors import UnauthenticatedError
from aiozarr.stores.bucket.token_source import TokenSource
from aiozarr.stores.s3.address import Configured, S3Options, Source, find_profile
from aiozarr.stores.s3.region_client import ANONYMOUS, S3Credentials

REUSE_SECONDS = 1800.0
"""Found credentials count as expired after this time, if they do not expire sooner."""

ANON = "anon=True reads public data without credentials"
NEEDS_EXTRA = "AWS profiles, SSO, roles and web identities need the package botocore: run pip install botocore"
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
            name = find_profile(self._options, os.environ)
            where = f"the AWS profile {name!r}" if name else "the AWS configuration"
            raise UnauthenticatedError(
                f"no credentials: {where} gave none ({type(error).__name__}); sign in again (aws sso login) or "
                f"correct the configuration ({ANON})"
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
    return any(map(os.path.isfile, _paths())) and find_spec("botocore") is not None


def _paths() -> tuple[str, str]:
    """Return the paths of the configuration file and of the credentials file."""
    config = os.environ.get("AWS_CONFIG_FILE", "~/.aws/config")
    shared = os.environ.get("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials")
    return os.path.expanduser(os.path.expandvars(config)), os.path.expanduser(os.path.expandvars(shared))


def read_configured(profile: str | None) -> Configured:
    """Return the values of `profile` in the files of the AWS tools, as botocore reads them; None: of the default one.

    botocore itself is not imported, because it takes longer than a first read.

    Raises:
        ValueError: there is no such profile, or a file cannot be read.
    """
    config, shared = map(_read_sections, _paths())
    sections: dict[str, dict[str, Configured]] = {"profile": {}, "services": {}}
    for header, values in config.items():
        kind, _, name = f"profile {header}".partition(" ") if header == "default" else header.partition(" ")
        if kind in sections:
            sections[kind][name.strip().strip("'\"")] = values
    profiles = sections["profile"]
    for name, values in shared.items():
        profiles[name] = {**profiles.get(name, {}), **values}
    if profile is not None and profile not in profiles:
        raise ValueError(f"the AWS configuration has no profile {profile!r}")
    found = profiles.get(profile or "default", {})
    services = sections["services"].get(found["services"]) if "services" in found else {}
    if services is None:
        raise ValueError(f"the AWS configuration has no section 'services {found['services']}'")
    return {**found, "endpoint_url": services["s3.endpoint_url"]} if "s3.endpoint_url" in services else found


def _read_sections(path: str) -> dict[str, dict[str, str]]:
    """Return the sections of a file, and none if it does not exist. Values inside a value have its name before theirs.

    Raises:
        ValueError: it is not valid; the message does not show it, because it may hold secrets.
    """
    if not os.path.isfile(path):
        return {}
    from configparser import Error, RawConfigParser

    parser, sections = RawConfigParser(), {}
    try:
        parser.read(path)
    except (Error, UnicodeDecodeError):
        raise ValueError(f"the AWS configuration in {path!r} cannot be read") from None
    for header in parser.sections():
        values = sections[header] = dict(parser[header])
        for name, value in parser[header].items():
            if value.startswith("\n"):
                lines = [line.partition("=") for line in value.splitlines()]
                values |= {f"{name}.{inner.strip()}": text.strip() for inner, _, text in lines}
    return sections
