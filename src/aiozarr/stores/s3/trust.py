"""Which certificates of S3 servers are believed: by options, or by the variables of the AWS tools."""

from __future__ import annotations

import os
import ssl

from aiozarr.stores.http.trust import context_for
from aiozarr.stores.options.http import HTTPOptions
from aiozarr.stores.options.s3 import S3Options


def certificates(options: S3Options) -> str | None:
    """Return further certificates to trust, as PEM; None: those of the system alone.

    Raises:
        ValueError: the file with them cannot be read.
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


def context_of(options: S3Options) -> ssl.SSLContext | None:
    """Return how the lane checks certificates; None: in the usual way."""
    return context_for(
        HTTPOptions(root_certificate=certificates(options), allow_invalid_certificates=options.verify is False)
    )
