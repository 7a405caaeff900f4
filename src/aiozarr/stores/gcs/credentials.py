"""The bearer tokens of Google's credentials, which the package google-auth makes."""

from __future__ import annotations

import os
import time
from datetime import UTC
from functools import partial
from importlib import import_module
from typing import Any

from aiozarr.errors import StoreError, UnauthenticatedError
from aiozarr.http1.url import fingerprint
from aiozarr.stores.bucket.token_source import TokenSource
from aiozarr.stores.gcs.address import GOOGLE, GcsOptions, Source

REQUEST_SECONDS = 20
"""The time limit of a request for a token."""

HINT = "run `gcloud auth application-default login`, or read a public bucket with anon=True"


def _unusable(error: Exception) -> UnauthenticatedError:
    """Return the error of invalid credentials. The messages of google-auth name fields, and not their values."""
    text = error.strerror if isinstance(error, OSError) else error.args[0] if error.args else None
    if isinstance(error, KeyError):
        text = f"no field {text!r}"
    reason = f" ({text.strip().partition(chr(10))[0][:200].rstrip('.')})" if isinstance(text, str) and text else ""
    return UnauthenticatedError(f"the Google credentials cannot be used{reason}; {HINT}")


class GcsTokenSource(TokenSource[str]):
    """The tokens of one set of Google's credentials."""

    def __init__(self, options: GcsOptions, source: Source, universe: str = "") -> None:
        """Describe the credentials.

        Args:
            options: the given options.
            source: where they come from.
            universe: the universe domain that they must be of; `""`: of any.
        """
        super().__init__()
        self._universe = universe
        self._options = options
        self._source: Source = source
        self._credentials: Any = None
        check_package()

    def _request_token(self) -> tuple[str, float]:
        import requests
        from google.auth import exceptions
        from google.auth.transport.requests import Request

        try:
            with requests.Session() as session:
                # The default timeout of google-auth is two minutes.
                request = partial(Request(session), timeout=REQUEST_SECONDS)
                if self._credentials is None:
                    self._credentials = _check_universe(self._load(request), self._universe)
                # The token was refused, or expires soon. google-auth may already have another one.
                if not self._credentials.valid or self._credentials.token == self._token:
                    self._credentials.refresh(request)
        except exceptions.MalformedError as error:
            raise _unusable(error) from error
        except exceptions.DefaultCredentialsError as error:
            if self._source in ("file", "document"):
                raise UnauthenticatedError(f"the Google credentials cannot be used; {HINT}") from error
            raise UnauthenticatedError(f"no Google credentials were found; {HINT}") from error
        except exceptions.TransportError as error:
            raise StoreError("Google's token service did not respond", retryable=True) from error
        except exceptions.GoogleAuthError as error:
            raise UnauthenticatedError(
                f"no token for these Google credentials: {HINT}", retryable=bool(error.retryable)
            ) from error
        except (ValueError, KeyError, OSError) as error:
            raise _unusable(error) from error
        token, expiry = self._credentials.token, self._credentials.expiry
        if not token:
            raise UnauthenticatedError(f"the Google credentials gave no token: {HINT}")
        if expiry is None:
            return token, float("inf")
        return token, time.monotonic() + expiry.replace(tzinfo=UTC).timestamp() - time.time()

    def _load(self, request: Any) -> Any:
        scopes = [f"https://www.googleapis.com/auth/devstorage.{self._options.access or 'read_write'}"]
        token = self._options.token
        match self._source:
            case "metadata":
                return import_module("google.auth.compute_engine").Credentials()
            case "file":
                return _from_document(_read_json(os.path.expanduser(token)), scopes)
            case "document":
                return _from_document(dict(token), scopes)
            case "credentials":
                return import_module("google.auth.credentials").with_scopes_if_required(token, scopes)
            case _:
                return import_module("google.auth").default(scopes=scopes, request=request)[0]


def make_source(options: GcsOptions, source: Source, universe: str) -> TokenSource[str]:
    """Return the tokens of `source`, for a server of `universe`; `""` stands for none."""
    if source in ("anonymous", "token"):
        return TokenSource("" if source == "anonymous" else options.token)
    return GcsTokenSource(options, source, universe)


def find_universe(options: GcsOptions, source: Source) -> str:
    """Return the universe domain in the document or the file of the credentials; Google's own if they name none."""
    path: Any = options.token
    if source == "default":
        folder = os.environ.get("CLOUDSDK_CONFIG", "~/.config/gcloud")
        path = os.environ.get("GOOGLE_APPLICATION_CREDENTIALS") or f"{folder}/application_default_credentials.json"
    elif source not in ("document", "file"):
        return GOOGLE
    try:
        document = path if source == "document" else _read_json(os.path.expanduser(path))
        return str(document.get("universe_domain") or GOOGLE)
    except (OSError, ValueError):
        return GOOGLE  # the request for the first token fails, with the reason


def _check_universe(credentials: Any, universe: str) -> Any:
    """Return `credentials` if they are of this universe domain; `""`: of any. No other server receives their tokens.

    Raises:
        UnauthenticatedError: they are of another one.
    """
    found = getattr(credentials, "universe_domain", GOOGLE)
    if universe in ("", found):
        return credentials
    raise UnauthenticatedError(
        f"the Google credentials belong to the universe domain {found!r}, but the server to {universe!r}; set the "
        f"option universe_domain={found!r}"
    )


def check_package() -> None:
    """Check that google-auth is installed.

    Raises:
        ImportError: it is not; the message names the extra.
    """
    from importlib.util import find_spec

    try:
        found = find_spec("google.auth") is not None and find_spec("requests") is not None
    except ModuleNotFoundError:  # the namespace `google` itself
        found = False
    if not found:
        raise ImportError(
            "Google credentials need the packages google-auth and requests: "
            "run pip install google-auth requests, or read a public bucket with "
            "anon=True"
        )


def account_name(options: GcsOptions, source: Source) -> str:
    """Return an identity of the credentials that does not reveal them."""
    token = options.token
    match source:
        case "token":
            return fingerprint({"token": token})
        case "document":
            return fingerprint({str(name): str(value) for name, value in token.items()})
        case "file":
            return f"file:{os.path.abspath(os.path.expanduser(token))}"
        case "credentials":
            account = getattr(token, "service_account_email", None) or getattr(token, "client_id", None)
            return f"credentials:{type(token).__name__}:{account or id(token)}"
        case "default":
            return f"default:{os.environ.get('GOOGLE_APPLICATION_CREDENTIALS', '')}"
        case _:
            return source


def _read_json(path: str) -> dict[str, Any]:
    import json

    with open(path, encoding="utf-8") as file:
        found = json.load(file)
    if not isinstance(found, dict):
        raise ValueError("the file does not contain a JSON object")
    return found


_KINDS = {
    "service_account": ("google.oauth2.service_account", "from_service_account_info"),
    "authorized_user": ("google.oauth2.credentials", "from_authorized_user_info"),
    "impersonated_service_account": ("google.auth.impersonated_credentials", "from_impersonated_service_account_info"),
    "external_account": ("google.auth.identity_pool", "from_info"),
    "external_account_authorized_user": ("google.auth.external_account_authorized_user", "from_info"),
}
"""The kinds of credentials in files of Google's tools, by their `type`, with the constructors of google-auth."""


def _from_document(document: dict[str, Any], scopes: list[str]) -> Any:
    """Return the credentials in a document.

    Raises:
        ValueError: it is not of a known kind. Those that run a program are left to google-auth's own search.
    """
    kind = document.get("type") or ("service_account" if "private_key" in document else "authorized_user")
    if kind not in _KINDS:
        raise ValueError(f"their 'type' is not one of {', '.join(_KINDS)}")
    module, method = _KINDS[kind]
    if kind == "external_account" and "environment_id" in (document.get("credential_source") or {}):
        module = "google.auth.aws"
    make = getattr(import_module(module).Credentials, method)
    if kind == "authorized_user":  # its refresh token has scopes of its own; requests for others are refused
        return make(document)
    return make(document, scopes=scopes)
