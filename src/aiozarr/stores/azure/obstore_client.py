"""obstore's client for one container of Azure Blob Storage: made from the options, and the reads that it sends."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from aiozarr.errors import AiozarrError, StoreTimeoutError
from aiozarr.http1.connection import Connection, Response, ResponseReceiver
from aiozarr.http1.endpoint_client import Request
from aiozarr.http1.pool import SLOWEST_BYTES_PER_SECOND
from aiozarr.http1.request import RequestTemplate
from aiozarr.http1.response_check import ERROR_BODY, MAX_ERROR_BODY_BYTES, Expectation, Headers, check_response
from aiozarr.model import ByteRange, Range
from aiozarr.stores.azure.address import AzureEndpoint
from aiozarr.stores.azure.authoriser import AzureTokenSource
from aiozarr.stores.azure.credentials import AzureCredentials
from aiozarr.stores.http.errors import error_code
from aiozarr.stores.obstore.errors import NO_TOKEN, is_foreign, translate
from aiozarr.stores.obstore.obstore_bucket import NO_RETRIES, client_options
from aiozarr.stores.options.azure_options import AzureOptions

if TYPE_CHECKING:
    from obstore.store import AzureStore

_CHAIN_OPTIONS = (
    "tenant_id",
    "client_id",
    "client_secret",
    "federated_token_file",
    "authority_host",
    "msi_endpoint",
    "object_id",
    "msi_resource_id",
)


def make_client(
    endpoint: AzureEndpoint,
    options: AzureOptions,
    credentials: AzureCredentials,
    tokens: AzureTokenSource | None,
    connect_timeout: float,
    *,
    keep_alive: bool = True,
) -> AzureStore:
    """Return an obstore client without retries: the scheduler retries, for all stores."""
    from obstore.exceptions import UnknownConfigurationKeyError
    from obstore.store import AzureStore

    # The client takes missing options from the environment, which may be about another account.
    config: dict[str, Any] = {
        "account_name": endpoint.account.removesuffix("-secondary"),
        "endpoint": endpoint.endpoint,
        "use_emulator": False,
        "skip_signature": credentials.kind == "anonymous",
    }
    if credentials.kind == "chain":
        config["credential_type"] = credentials.link
        config["use_azure_cli"] = credentials.link == "azure_cli"
        config |= {name: value for name in _CHAIN_OPTIONS if (value := getattr(options, name)) is not None}
    rest: dict[str, Any] = {
        "client_options": client_options(
            secure=endpoint.web.secure, connect_timeout=connect_timeout, keep_alive=keep_alive
        ),
        "retry_config": {"max_retries": NO_RETRIES},
        "credential_provider": _provider(credentials, tokens),
    }
    try:
        return AzureStore(endpoint.container, config=config, **rest)  # type: ignore[arg-type]
    except UnknownConfigurationKeyError:  # older versions choose the type themselves, in the same order
        del config["credential_type"]
        return AzureStore(endpoint.container, config=config, **rest)  # type: ignore[arg-type]


def _provider(credentials: AzureCredentials, tokens: AzureTokenSource | None) -> Any:
    if tokens is not None:
        return tokens.provide
    name = {"key": "access_key", "sas": "sas_token", "token": "token"}.get(credentials.kind)
    return None if name is None else lambda: {name: credentials.secret, "expires_at": None}


def has_login() -> bool:
    """Return whether the Azure CLI is installed and has a login."""
    folder = os.environ.get("AZURE_CONFIG_DIR", os.path.join("~", ".azure"))
    profile = os.path.join(os.path.expanduser(folder), "azureProfile.json")
    return os.path.isfile(profile) and shutil.which("az") is not None


_STATUS = re.compile(r"status code: (\d{3})")
_TEMPLATE = RequestTemplate("", {})


class ObstoreSender:
    """Sends GET and HEAD requests by obstore, and returns responses like those of an `EndpointClient`."""

    def __init__(self, client: Callable[[], AzureStore], idle_timeout: float) -> None:
        """Describe the sender.

        Args:
            client: returns obstore's client.
            idle_timeout: seconds until the head of the response comes; the body may take further time.
        """
        self._client = client
        self._idle_timeout = idle_timeout

    def request(self, method: str, key: str, expectation: Expectation) -> Request:
        """Return a request for `key`, which obstore authorises."""
        return Request(self, method, key, "", _TEMPLATE, expectation)

    async def send(self, request: Request) -> Response:
        """Send a GET or HEAD; its range is not a suffix, which Azure does not support.

        Raises:
            StoreError: no valid response came.
        """
        client, seconds = self._client(), 2 * self._idle_timeout
        try:
            async with asyncio.timeout(seconds) as limit:
                if request.method == "HEAD":
                    return await _head(client, request.key, request.expectation)
                return await _get(client, request.key, request.expectation, limit)
        except TimeoutError as error:
            raise StoreTimeoutError(f"no response within {seconds:g} s and the time for its bytes") from error
        except BaseException as error:
            if not is_foreign(error):
                raise
            response = _refusal(error)
            if response is None:
                raise translate(error) from error
            return response

    def send_nowait(self, request: Request, receiver: ResponseReceiver) -> Connection | None:
        """Return None: obstore's reads take a task."""
        return None

    async def resolve(self, request: Request, response: Response) -> Response:
        """Return `response`: obstore has followed redirects."""
        return response

    def preconnect(self, requests: int) -> None:
        """Do nothing: obstore has connections of its own."""

    async def aclose(self) -> None:
        """Do nothing: obstore closes its connections itself."""


async def _get(
    client: AzureStore, key: str, expectation: Expectation, limit: asyncio.Timeout | None = None
) -> Response:
    import obstore

    result = await obstore.get_async(client, key, options=_options(expectation))  # type: ignore[arg-type]
    meta, (start, stop) = result.meta, result.range
    headers: Headers = {b"content-length": b"%d" % (stop - start)}
    if meta["e_tag"] is not None:
        headers[b"etag"] = meta["e_tag"].encode("latin-1")
    status = 200
    if expectation.range is not None:
        status = 206
        headers[b"content-range"] = b"bytes %d-%d/%d" % (start, stop - 1, meta["size"])
    action = check_response(expectation, status, headers)
    if isinstance(action, AiozarrError):
        raise action
    deadline = None if limit is None else limit.when()
    if limit is not None and deadline is not None:
        limit.reschedule(deadline + (stop - start) / SLOWEST_BYTES_PER_SECOND)
    return Response(status, headers, action, await result.bytes_async())


async def _head(client: AzureStore, key: str, expectation: Expectation) -> Response:
    import obstore

    try:
        meta = await obstore.head_async(client, key)
    except FileNotFoundError:
        # The response to a HEAD does not distinguish a missing container; that to a GET does.
        await obstore.get_async(client, key, options={"range": (0, 1)})
        raise
    headers: Headers = {b"content-length": b"%d" % meta["size"]}
    if meta["e_tag"] is not None:
        headers[b"etag"] = meta["e_tag"].encode("latin-1")
    action = check_response(expectation, 200, headers)
    if isinstance(action, AiozarrError):
        raise action
    return Response(200, headers, action, b"")


def _options(expectation: Expectation) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if expectation.etag is not None and not expectation.etag.startswith("W/"):
        options["if_match"] = expectation.etag
    if expectation.range is not None:
        options["range"] = _range(expectation.range)
    return options


def _range(byte_range: ByteRange) -> Any:
    assert isinstance(byte_range, Range)
    if byte_range.length is None:
        return {"offset": byte_range.start}
    return (byte_range.start, byte_range.start + byte_range.length)


def _refusal(error: BaseException) -> Response | None:
    """Return the response that the message of `error` reports, or None."""
    text = str(error)
    match = _STATUS.search(text)
    if match is None or any(phrase in text for phrase in NO_TOKEN):
        return None
    body = text[match.end() :].encode()[:MAX_ERROR_BODY_BYTES]
    code = error_code(body)
    headers: Headers = {} if code is None else {b"x-ms-error-code": code.encode()}
    return Response(int(match[1]), headers, ERROR_BODY, body)
