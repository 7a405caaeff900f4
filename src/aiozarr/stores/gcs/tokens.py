"""Bearer tokens: asked for by google-auth in a thread, once for all who wait, and before the last one ends."""

from __future__ import annotations

import asyncio
import copy
import os
import time
import weakref
from datetime import UTC
from functools import partial
from importlib import import_module
from typing import Any

from aiozarr.errors import StoreError, UnauthenticatedError
from aiozarr.stores.blocking import in_thread
from aiozarr.stores.gcs.address import Source
from aiozarr.stores.http.url import fingerprint
from aiozarr.stores.lock import Lock
from aiozarr.stores.options.gcs import GcsOptions

EARLY_SECONDS = 240.0
"""A token is asked for anew so long before it ends; Google's own services hand out a new one from about then on."""

AGAIN_SECONDS = 20.0
"""A token that could not be renewed, and has not ended, is used for so long before it is tried again."""

REQUEST_SECONDS = 20
"""How long a service that hands out tokens may take to answer."""

HINT = "run `gcloud auth application-default login`, or read a public bucket with anon=True"


def _unusable(error: Exception) -> UnauthenticatedError:
    """Return an error that tells what is wrong with the credentials; google-auth names fields, not what they hold."""
    told = error.strerror if isinstance(error, OSError) else error.args[0] if error.args else None
    if isinstance(error, KeyError):
        told = f"no field {told!r}"
    reason = f" ({told.strip().partition(chr(10))[0][:200].rstrip('.')})" if isinstance(told, str) and told else ""
    return UnauthenticatedError(f"the Google credentials cannot be used{reason}: {HINT}")


class Tokens:
    """The tokens of one set of credentials, for all loops and threads."""

    def __init__(self, options: GcsOptions, source: Source) -> None:
        self._options = options
        self._source: Source = source
        self._credentials: Any = None
        self._token = ""
        self._fresh_until = 0.0  # by the monotonic clock, as is the next one
        self._ends = 0.0
        self._failure: tuple[float, StoreError] | None = None  # when the last try failed, and why
        self._guard = Lock()
        self._locks: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = weakref.WeakKeyDictionary()
        if source == "token":
            self._token = options.token
            self._fresh_until = self._ends = float("inf")
        elif source != "anonymous":
            check_package()

    def kept(self) -> str | None:
        """Return a token that is valid for a while; None: one has to be asked for."""
        return self._token if time.monotonic() < self._fresh_until else None

    async def token(self) -> str:
        """Return a token that is valid for a while.

        Raises:
            UnauthenticatedError: there are no credentials, or they are not accepted.
            StoreError: the service that hands them out did not answer.
        """
        kept = self.kept()
        if kept is not None:
            return kept
        since = time.monotonic()
        async with self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
            kept = self.kept()
            return await in_thread(lambda: self._renew(since)) if kept is None else kept

    def refused(self, token: str) -> bool:
        """Note that a server does not accept `token`; return whether there may be another one."""
        if self._source == "token":
            return False
        if token == self._token:
            self._fresh_until = self._ends = 0.0
        return True

    def _renew(self, since: float) -> str:
        """Ask for a token; whoever began to wait before another try failed fails with it, and asks nobody."""
        with self._guard:
            kept = self.kept()
            if kept is not None:  # another loop's thread was faster
                return kept
            if self._failure is not None and self._failure[0] >= since:
                raise copy.copy(self._failure[1]) from self._failure[1].__cause__
            try:
                token, ends = self._ask()
            except StoreError as error:
                now = time.monotonic()
                if not self._token or now >= self._ends - 1:
                    self._failure = (now, copy.copy(error).with_traceback(None))
                    self._failure[1].__cause__ = error.__cause__
                    raise
                self._fresh_until = min(now + AGAIN_SECONDS, self._ends - 1)
                return self._token
            # One that is handed out shortly before its end is used all the same, and soon asked for anew.
            self._token, self._ends, self._failure = token, ends, None
            self._fresh_until = max(ends - EARLY_SECONDS, min(ends - 1, time.monotonic() + 1))
            return token

    def _ask(self) -> tuple[str, float]:
        """Return a new token, and when it ends."""
        import requests
        from google.auth import exceptions
        from google.auth.transport.requests import Request

        try:
            with requests.Session() as session:
                # A request of google-auth would wait two minutes for an answer where it does not say otherwise.
                request = partial(Request(session), timeout=REQUEST_SECONDS)
                if self._credentials is None:
                    self._credentials = self._load(request)
                # A token that was used has been refused, or ends soon; another one may be there already.
                if not self._credentials.valid or self._credentials.token == self._token:
                    self._credentials.refresh(request)
        except exceptions.MalformedError as error:
            raise _unusable(error) from error
        except exceptions.DefaultCredentialsError as error:
            if self._source in ("file", "document"):
                raise UnauthenticatedError(f"the Google credentials cannot be used: {HINT}") from error
            raise UnauthenticatedError(f"no Google credentials were found: {HINT}") from error
        except exceptions.TransportError as error:
            raise StoreError("the service that hands out Google's tokens did not answer", retryable=True) from error
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
                return _untyped("google.auth.compute_engine").Credentials()
            case "file":
                return _from_document(_read_json(os.path.expanduser(token)), scopes)
            case "document":
                return _from_document(dict(token), scopes)
            case "credentials":
                return _untyped("google.auth.credentials").with_scopes_if_required(token, scopes)
            case _:
                return _untyped("google.auth").default(scopes=scopes, request=request)[0]


def check_package() -> None:
    """See that google-auth is there.

    Raises:
        ImportError: it is not; names the extra.
    """
    from importlib.util import find_spec

    try:
        found = find_spec("google.auth") is not None and find_spec("requests") is not None
    except ModuleNotFoundError:  # the namespace `google` itself
        found = False
    if not found:
        raise ImportError(
            "Google credentials need google-auth and requests: install aiozarr[gcs], or read a public bucket with "
            "anon=True"
        )


def who(options: GcsOptions, source: Source) -> str:
    """Return what tells these credentials from others, without telling them."""
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
        raise ValueError("the file holds no JSON object")
    return found


def _untyped(module: str) -> Any:
    """Import a module of google-auth, whose annotations are not whole."""
    return import_module(module)


_KINDS = {
    "service_account": ("google.oauth2.service_account", "from_service_account_info"),
    "authorized_user": ("google.oauth2.credentials", "from_authorized_user_info"),
    "impersonated_service_account": (
        "google.auth.impersonated_credentials",
        "from_impersonated_service_account_info",
    ),
    "external_account": ("google.auth.identity_pool", "from_info"),
    "external_account_authorized_user": ("google.auth.external_account_authorized_user", "from_info"),
}
"""The kinds of credentials that Google's tools keep in files, by their `type`, and what of google-auth takes each."""


def _from_document(document: dict[str, Any], scopes: list[str]) -> Any:
    """Return the credentials that a document describes.

    Raises:
        ValueError: it describes none of the known kinds. Those that run a program are left to Google's own search.
    """
    kind = document.get("type") or ("service_account" if "private_key" in document else "authorized_user")
    if kind not in _KINDS:
        raise ValueError(f"their 'type' is none of {', '.join(_KINDS)}")
    module, method = _KINDS[kind]
    if kind == "external_account" and "environment_id" in (document.get("credential_source") or {}):
        module = "google.auth.aws"
    make = getattr(_untyped(module).Credentials, method)
    if kind == "authorized_user":  # whose refresh token has its own scopes; asking for others is refused
        return make(document)
    return make(document, scopes=scopes)
