"""S3Credentials that are available without obstore, and sign without it."""

from __future__ import annotations

from collections.abc import Mapping

from aiozarr.errors import UnauthenticatedError
from aiozarr.stores.blocking import in_thread
from aiozarr.stores.obstore.errors import ANON
from aiozarr.stores.options.s3_options import S3Options
from aiozarr.stores.s3.address import Source
from aiozarr.stores.s3.client import NoCredentialsError, Provider
from aiozarr.stores.s3.presign import S3Credentials

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
