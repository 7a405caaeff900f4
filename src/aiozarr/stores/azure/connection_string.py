"""Connection strings of storage accounts, the form of access in Azure's portal and tools."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

EMULATOR_ACCOUNT = "devstoreaccount1"
EMULATOR_ENDPOINT = f"http://127.0.0.1:10000/{EMULATOR_ACCOUNT}"
EMULATOR_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""No secret: it is in the documentation of the emulator, and only the emulator accepts it."""

PUBLIC_SUFFIX = "core.windows.net"

_ACCOUNT = re.compile(r"[A-Za-z0-9-]{1,63}")


@dataclass(frozen=True, slots=True)
class ConnectionString:
    """The parts of a connection string about blobs; None for missing ones.

    Attributes:
        account: the account's name.
        key: the account's key.
        sas: a shared access signature, without a question mark before it.
        endpoint: the URL of the account's blobs.
        secondary: the URL of the account's blobs in its secondary region, which can only be read.
    """

    account: str | None = None
    key: str | None = field(default=None, repr=False)
    sas: str | None = field(default=None, repr=False)
    endpoint: str | None = None
    secondary: str | None = None


def parse_connection_string(text: str) -> ConnectionString:
    """Parse a connection string; its parts about queues, tables and files are ignored.

    Raises:
        ValueError: it is not valid, or incomplete; the message does not show it.
    """
    settings: dict[str, str] = {}
    for part in text.split(";"):
        if not part.strip():
            continue
        name, separator, value = part.partition("=")
        name = name.strip().lower()
        if not separator or not name or not value.strip():
            raise ValueError("not a connection string: its parts are Name=Value, with ';' between them")
        if settings.setdefault(name, value.strip()) != value.strip():
            raise ValueError(f"the connection string says {name!r} twice")
    if settings.get("usedevelopmentstorage", "").lower() == "true":
        return ConnectionString(EMULATOR_ACCOUNT, EMULATOR_KEY, endpoint=EMULATOR_ENDPOINT)
    account = settings.get("accountname")
    endpoint, secondary = settings.get("blobendpoint"), settings.get("blobsecondaryendpoint")
    if account is not None and not _ACCOUNT.fullmatch(account):  # it becomes a part of the host
        raise ValueError("the connection string's AccountName has other than letters, digits and '-'")
    if endpoint is None and account is not None:
        scheme = settings.get("defaultendpointsprotocol", "https").lower()
        suffix = settings.get("endpointsuffix", PUBLIC_SUFFIX)
        endpoint = f"{scheme}://{account}.blob.{suffix}"
        secondary = secondary or f"{scheme}://{account}-secondary.blob.{suffix}"
    if endpoint is None:
        raise ValueError("the connection string names no account: AccountName or BlobEndpoint is needed")
    sas = settings.get("sharedaccesssignature")
    if sas is not None and any(character.isspace() for character in sas):
        raise ValueError("the connection string's SharedAccessSignature holds blanks")
    return ConnectionString(account, settings.get("accountkey"), sas and sas.removeprefix("?"), endpoint, secondary)
