"""The credentials that this process can have itself, with which it signs without obstore."""

from __future__ import annotations

from collections.abc import Mapping

from aiozarr.errors import UnauthenticatedError
from aiozarr.stores.blocking import in_thread
from aiozarr.stores.obstore.errors import ANON
from aiozarr.stores.options.s3 import S3Options
from aiozarr.stores.s3.address import Source
from aiozarr.stores.s3.client import Provider
from aiozarr.stores.s3.presign import Credentials
from aiozarr.stores.s3.profiles import NoCredentialsError

_TOKENS = ("AWS_SESSION_TOKEN", "AWS_TOKEN")
"""Of the environment, as obstore knows them."""


def knows_credentials(source: Source) -> bool:
    """Return whether the credentials can be had without obstore, whose chain keeps what it finds to itself."""
    return source != "chain"


def fixed_credentials(options: S3Options, source: Source, environ: Mapping[str, str]) -> Credentials | None:
    """Return what signs where that is known without asking anybody, and does not end; else None."""
    if source == "given":
        return Credentials(options.key or "", options.secret or "", options.token)
    if source == "environment":
        token = next((environ[name] for name in _TOKENS if environ.get(name)), None)
        return Credentials(environ.get("AWS_ACCESS_KEY_ID", ""), environ.get("AWS_SECRET_ACCESS_KEY", ""), token)
    return None


async def find_credentials(
    options: S3Options, source: Source, provider: Provider | None, environ: Mapping[str, str]
) -> Credentials | None:
    """Return what signs; None: nothing does.

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
        return Credentials(found["access_key_id"], found["secret_access_key"], found["token"])
    return None
