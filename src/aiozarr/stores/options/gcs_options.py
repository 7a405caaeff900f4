"""The storage options of Google Cloud Storage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from aiozarr.stores.options.option_table import Option, OptionTable, as_bool, option, options_of

Access = Literal["read_only", "read_write", "full_control"]


@dataclass(frozen=True, slots=True)
class GcsOptions:
    """The given options of a GCS store. None means that an option is not given.

    Attributes:
        anon: send no credentials, to public buckets.
        token: the credentials: `"google_default"`, `"cloud"` (the metadata service), the path of a file of
            credentials, its content as a dict, an access token, or credentials of the package google-auth.
        path_from: the option of the token, if its value can only be a path.
        access: the access that tokens are requested for.
        project: the project that pays, if the requester pays.
        requester_pays: name that project in every request; a str is the project itself.
        endpoint_url: a server instead of https://storage.googleapis.com.
        max_connections, idle_timeout, connect_timeout: as for `HTTPStore`.
    """

    anon: bool | None = option("flag", obstore=("skip_signature",), ours_only=True)
    token: Any = option("any", shown=False, fsspec=("token",))
    path_from: str | None = field(default=None, compare=False)
    access: Access | None = option(fsspec=("access",))
    project: str | None = option(fsspec=("project",))
    requester_pays: bool | str | None = option("any", fsspec=("requester_pays",))
    endpoint_url: str | None = option(fsspec=("endpoint_url",), obstore=("base_url", "endpoint"))
    max_connections: int | None = option("count", ours_only=True)
    idle_timeout: float | None = option("seconds", fsspec=("timeout",), obstore=("read_timeout",))
    connect_timeout: float | None = option("seconds", ours_only=True)

    @property
    def payer(self) -> str | None:
        """The project that pays for the requests, or None if the bucket's owner pays."""
        return (
            self.requester_pays
            if isinstance(self.requester_pays, str)
            else self.project
            if self.requester_pays
            else None
        )


GCS_TABLE = OptionTable(
    store="a GCS store",
    options=(
        *options_of(GcsOptions),
        Option("service_account", "words", obstore=("service_account_path",), ours_only=True),
        Option("service_account_key", "words", ours_only=True),
        Option("application_credentials", "words", ours_only=True),
        Option("bearer_token", ours_only=True),
        Option("bucket", obstore=("bucket_name",), ours_only=True),
    ),
    prefixes=("google_", "gcs_"),
    nested=("config", "client_options"),
    without_effect=(
        "block_size cache_timeout check_connection consistency default_location requests_timeout secure_serialize"
    ),
)

_OTHER_CREDENTIALS = ("service_account", "application_credentials", "service_account_key", "bearer_token")

_PATHS = ("service_account", "application_credentials")


def gcs_options(given: Mapping[str, Any], bucket: str) -> GcsOptions:
    """Translate `storage_options` of a GCS store of `bucket`. An option that is None counts as not given.

    Raises:
        TypeError: an unknown option, or a value of the wrong type; the message lists the known ones.
        ValueError: one option is given twice with different values, or options contradict each other.
    """
    if given.get("timeout") is not None:  # gcsfs's own name is the user's; ours may come from the settings
        given = {name: value for name, value in given.items() if name != "idle_timeout"}
    found = GCS_TABLE.translate(given)
    if found.pop("bucket", bucket) != bucket:
        raise ValueError("the storage option 'bucket' names another bucket than the URL")
    for name in _OTHER_CREDENTIALS:
        if name in found:
            if "token" in found:
                raise ValueError(f"the storage options 'token' and {name!r} exclude each other")
            found["token"] = _as_token(name, found.pop(name))
            if name in _PATHS:
                found["path_from"] = name
    if found.get("token") == "anon":
        del found["token"]
        if found.setdefault("anon", True) is False:
            raise ValueError("the storage options 'anon' and 'token' contradict each other")
    if found.get("anon") and "token" in found:
        raise ValueError("the storage option 'anon' sends no credentials, and credentials are given")
    if found.get("access") not in (None, "read_only", "read_write", "full_control"):
        raise ValueError("the storage option 'access' is 'read_only', 'read_write' or 'full_control'")
    _check_payer(found)
    _check_token(found.get("token"))
    return GcsOptions(**found)


def _as_token(name: str, value: str) -> Any:
    if name != "service_account_key":
        return value
    import json

    try:
        key = json.loads(value)
    except ValueError:
        key = None
    if not isinstance(key, dict):
        raise ValueError("the storage option 'service_account_key' is a JSON document")
    return key


def _check_payer(found: dict[str, Any]) -> None:
    pays = found.get("requester_pays")
    if pays is not None and not isinstance(pays, bool | str):
        pays = found["requester_pays"] = as_bool("requester_pays", pays)
    if isinstance(pays, str) and pays.lower() in ("", "true", "false", "0", "1"):
        pays = found["requester_pays"] = pays.lower() in ("true", "1")
    if pays is True and found.get("project") is None:
        raise ValueError("the storage option 'requester_pays' needs the project that pays: give its name, or 'project'")
    payer = pays if isinstance(pays, str) else found.get("project")
    if payer is not None and not all(c.isascii() and (c.isalnum() or c in "-.:_") for c in cast("str", payer)):
        raise ValueError("not a project's id")


def _check_token(token: Any) -> None:
    if token is None or isinstance(token, Mapping) or (hasattr(token, "refresh") and hasattr(token, "valid")):
        return
    if not isinstance(token, str):
        raise TypeError(
            "the storage option 'token' is a str, a dict, or credentials of the package google-auth, "
            f"not {type(token).__name__}"
        )
    if token in ("browser", "cache"):
        raise ValueError(
            f"the storage option token={token!r} is not supported: run `gcloud auth application-default login` once, "
            "and give no token"
        )
    if not token or any(ord(character) < 0x20 or ord(character) == 0x7F for character in token):
        raise ValueError("the storage option 'token' is empty, or holds control characters")
