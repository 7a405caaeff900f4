"""The storage options of Google Cloud Storage, and the endpoint and the source of credentials of a bucket.

Pure functions find both in options and environment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast
from urllib.parse import quote, unquote

from aiozarr.http1.request import check_headers, quote_key
from aiozarr.http1.url import WebAddress
from aiozarr.model import check_key
from aiozarr.stores.option_table import OptionTable, as_bool, is_set, option, options_of

Access = Literal["read_only", "read_write", "full_control"]


@dataclass(frozen=True, slots=True)
class GcsOptions:
    """The given options of a GCS store. None means that an option is not given.

    Attributes:
        anon: send no credentials, for public buckets.
        token: the credentials: the path or the content (a `dict`) of a file of credentials, an access token,
            credentials of google-auth, `"google_default"`, `"cloud"` (the metadata service) or `"anon"`.
        access: the scope of tokens: `read_only`, `read_write` (the default) or `full_control`.
        project: the project that pays for requests if `requester_pays` is `True`.
        requester_pays: `True` or a project: it pays for requests and transfer.
        endpoint_url: a server other than `https://storage.googleapis.com`.
        universe_domain: the domain of another Google cloud, whose server is `storage.` before it.
        max_connections: open connections for each event loop; 1024 by default.
        idle_timeout: time without progress after which a request fails; 20 s by default.
        connect_timeout: time to open a connection; 20 s by default.
    """

    anon: bool | None = option("flag", obstore=("skip_signature",), ours_only=True)
    token: Any = option(
        "any", shown=False, fsspec=("token",), obstore=("bearer_token", "service_account", "application_credentials")
    )
    access: Access | None = option(fsspec=("access",))
    project: str | None = option(fsspec=("project",))
    requester_pays: bool | str | None = option("any", fsspec=("requester_pays",))
    endpoint_url: str | None = option(fsspec=("endpoint_url",), obstore=("base_url", "endpoint"))
    universe_domain: str | None = option(ours_only=True)
    max_connections: int | None = option("count", ours_only=True)
    idle_timeout: float | None = option("seconds", fsspec=("timeout",), obstore=("read_timeout",))
    connect_timeout: float | None = option("seconds", ours_only=True)

    @property
    def payer(self) -> str | None:
        """The project that pays for the requests, or None if the bucket's owner pays."""
        pays = self.requester_pays
        return pays if isinstance(pays, str) else self.project if pays else None


GCS_TABLE = OptionTable(
    store="a GCS store",
    options=options_of(GcsOptions),
    without_effect=(
        "block_size cache_timeout check_connection consistency default_location requests_timeout secure_serialize"
    ),
)


def gcs_options(given: Mapping[str, Any]) -> GcsOptions:
    """Translate `storage_options` of a GCS store. An option that is None counts as not given.

    Raises:
        TypeError: an unknown option, or a value of the wrong type; the message has the nearest known option.
        ValueError: one option is given twice with different values, or options contradict each other.
    """
    if given.get("timeout") is not None:  # gcsfs's own name is the user's; ours may come from the settings
        given = {name: value for name, value in given.items() if name != "idle_timeout"}
    found = GCS_TABLE.translate(given)
    if found.get("token") == "anon":
        del found["token"]
        if found.setdefault("anon", True) is False:
            raise ValueError("the storage options 'anon' and 'token' contradict each other")
    if found.get("anon") and "token" in found:
        raise ValueError("the storage option 'anon' cannot be combined with credentials")
    if found.get("access") not in (None, "read_only", "read_write", "full_control"):
        raise ValueError("the storage option 'access' must be 'read_only', 'read_write' or 'full_control'")
    _check_payer(found)
    _check_token(found.get("token"))
    return GcsOptions(**found)


def _check_payer(found: dict[str, Any]) -> None:
    pays = found.get("requester_pays")
    if pays is not None and not isinstance(pays, bool | str):
        pays = found["requester_pays"] = as_bool("requester_pays", pays)
    if isinstance(pays, str) and pays.lower() in ("", "true", "false", "0", "1"):
        pays = found["requester_pays"] = pays.lower() in ("true", "1")
    if pays is True and found.get("project") is None:
        raise ValueError(
            "the storage option 'requester_pays' needs the project that pays; pass its name, or set 'project'"
        )
    payer = pays if isinstance(pays, str) else found.get("project")
    if payer is not None and not all(c.isascii() and (c.isalnum() or c in "-.:_") for c in cast("str", payer)):
        raise ValueError("not a project ID")


def _check_token(token: Any) -> None:
    if token is None or isinstance(token, Mapping) or (hasattr(token, "refresh") and hasattr(token, "valid")):
        return
    if not isinstance(token, str):
        raise TypeError(
            f"the storage option 'token' must be a str, a dict, or google-auth credentials, not {type(token).__name__}"
        )
    if token in ("browser", "cache"):
        raise ValueError(
            f"the storage option token={token!r} is not supported; run `gcloud auth application-default login` "
            "once and omit the token"
        )
    if not token or any(ord(character) < 0x20 or ord(character) == 0x7F for character in token):
        raise ValueError("the storage option 'token' is empty or contains control characters")


GOOGLE = "googleapis.com"
"""The universe domain of Google's public cloud."""

Source = Literal["anonymous", "token", "file", "document", "credentials", "metadata", "default"]
"""The source of credentials: none, an access token, a file, a document, an object of google-auth, the metadata service
of Google's machines, or the search of Google's tools (application default credentials)."""


@dataclass(frozen=True, slots=True)
class GcsEndpoint:
    """A bucket's address.

    Attributes:
        bucket: the bucket's name.
        web: the server.
        universe: the domain of the cloud of Google's that has this server, and whose credentials it accepts; `""` for
            another server that speaks its protocol, such as an emulator.
    """

    bucket: str
    web: WebAddress
    universe: str

    def object_path(self, key: str) -> str:
        """Return the path of an object in the XML API."""
        return f"{self.web.path}/{self.bucket}/{quote_key(key)}"

    @property
    def list_path(self) -> str:
        """The path of listings in the JSON API."""
        return f"{self.web.path}/storage/v1/b/{self.bucket}/o"

    def rewrite_path(self, key: str, bucket: str, target: str) -> str:
        """Return the path that copies an object of this bucket to the object `target` of `bucket` (JSON API)."""
        return f"{self.list_path}/{quote(key, safe='')}/rewriteTo/b/{bucket}/o/{quote(target, safe='')}"

    def upload_target(self, kind: str, key: str, **query: str) -> str:
        """Return path and query for an upload of a kind: "multipart" or "resumable"."""
        more = "".join(f"&{name}={quote(value, safe='')}" for name, value in query.items())
        path = f"{self.web.path}/upload/storage/v1/b/{self.bucket}/o"
        return f"{path}?uploadType={kind}&name={quote(key, safe='')}&fields=generation,size,crc32c{more}"


def parse_url(url: str) -> tuple[str, str]:
    """Return bucket and root (a prefix ending with `/`, or `""`) of a `gs://bucket/root` URL.

    The path is not percent-encoded, as in fsspec and the Google tools.

    Raises:
        ValueError: it is not such a URL.
        InvalidKeyError: the root is not a valid key.
    """
    scheme, separator, rest = url.partition("://")
    if scheme.lower() not in ("gs", "gcs") or not separator:
        raise ValueError("the URL of a GCS store must have the form gs://bucket/path")
    bucket, _, root = rest.partition("/")
    if "@" in unquote(bucket):
        raise ValueError("the URL of a bucket must not contain credentials; use the option 'token'")
    if not bucket.strip(".") or not bucket.isascii() or not all(c.isalnum() or c in ".-_" for c in bucket):
        raise ValueError(f"not a bucket name: {bucket!r}")
    root = root.removesuffix("/")
    return bucket, f"{check_key(root)}/" if root else ""


def find_endpoint(bucket: str, options: GcsOptions, environ: Mapping[str, str], universe: str = GOOGLE) -> GcsEndpoint:
    """Return the endpoint of `bucket`.

    Args:
        bucket: the bucket's name.
        options: the given options.
        environ: the environment.
        universe: the universe domain of the credentials.

    Raises:
        ValueError: the endpoint is not the URL of a server.
    """
    universe = (options.universe_domain or environ.get("GOOGLE_CLOUD_UNIVERSE_DOMAIN") or universe).lower()
    web = WebAddress.of_endpoint(find_endpoint_url(options, environ) or f"https://storage.{universe}")
    return GcsEndpoint(bucket, web, next((u for u in (universe, GOOGLE) if f".{web.host}".endswith(f".{u}")), ""))


def find_endpoint_url(options: GcsOptions, environ: Mapping[str, str]) -> str | None:
    """Return the endpoint's URL from the options or the environment, or None for Google.

    The scheme in `STORAGE_EMULATOR_HOST` is optional, and http by default.
    """
    if options.endpoint_url is not None:
        return options.endpoint_url
    emulator = environ.get("STORAGE_EMULATOR_HOST", "")
    if emulator in ("", "default"):
        return None
    return emulator if "://" in emulator else f"http://{emulator}"


def find_source(options: GcsOptions, environ: Mapping[str, str], *, google: bool) -> Source:
    """Return the source of the credentials.

    Args:
        options: the given options.
        environ: the environment.
        google: whether the server is Google's. Another one gets only credentials that were given.

    Raises:
        ValueError: a file of credentials does not exist, or a token cannot be sent.
    """
    token = options.token
    if options.anon or (options.anon is None and token is None and is_set(environ, "GOOGLE_SKIP_SIGNATURE")):
        return "anonymous"
    if token is None:
        return "default" if google else "anonymous"
    if isinstance(token, Mapping):
        return "document"
    if not isinstance(token, str):
        return "anonymous" if type(token).__name__ == "AnonymousCredentials" else "credentials"
    if token in ("google_default", "cloud"):
        return "default" if token == "google_default" else "metadata"
    path = os.path.expanduser(token)
    if os.path.isfile(path):
        return "file"
    if token.endswith(".json") or token.startswith(("/", "~", "./", "../")):  # a token may have such a form
        raise ValueError("the storage option 'token' names a credentials file that does not exist")
    check_headers({"Authorization": token})
    return "token"


def sends_credentials_openly(endpoint: GcsEndpoint, source: Source) -> bool:
    """Return whether tokens would be sent to another machine without TLS."""
    return endpoint.web.exposed and source != "anonymous"
