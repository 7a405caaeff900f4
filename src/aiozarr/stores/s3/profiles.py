"""Profiles of the AWS tools: their options and credentials, read by botocore."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from typing import Any

from aiozarr.fork_safe_lock import ForkSafeLock
from aiozarr.stores.s3.address import S3Configuration

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
