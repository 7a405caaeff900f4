"""Write docs/reference/storage-options.md from the tables of options; `--check` only checks that it is up to date."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from importlib import import_module
from inspect import getdoc, isclass
from pathlib import Path
from types import ModuleType

from aiozarr.stores.option_table import Option, OptionTable

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "storage-options.md"
TABLES = {
    "s3.address": "S3",
    "gcs.address": "Google Cloud Storage",
    "azure.address": "Azure Blob Storage",
    "http.http_options": "HTTP",
}

HEAD = """\
# Storage options

The tables list the options that each kind of store takes in `storage_options`. The names that fsspec's file systems
(s3fs, gcsfs, adlfs, HTTP) have for the same options are accepted too. An option that is `None` counts as not given. An
unknown option is a `TypeError` that suggests the nearest name. Leave out everything that the cloud's own tools find.

A name with a dot is a member of a mapping: `client_kwargs.verify` stands for `{"client_kwargs": {"verify": ...}}`.
Durations are seconds or a `timedelta`.

Every remote store also takes `cache_directory`, the path of a local directory. The values that are read are kept there,
up to 10 GiB, with access for this user only. Each cached value is validated by one request
([`CacheStore`][aiozarr.stores.CacheStore]). Local paths, `memory://` and fsspec file systems do not have this option.

This page is written by `scripts/make_option_docs.py` from the tables that translate the options.
"""

KINDS = {
    "text": "text",
    "words": "text",
    "flag": "yes or no",
    "seconds": "duration",
    "count": "number",
    "mapping": "mapping",
    "any": "",
}


def page() -> str:
    """Return the page."""
    parts = [HEAD]
    for name, title in TABLES.items():
        module = import_module(f"aiozarr.stores.{name}")
        table = getattr(module, f"{name.partition('.')[0].upper()}_TABLE")
        parts.append(section(title, table, attributes_of(module)))
    return "\n".join(parts)


def attributes_of(module: ModuleType) -> dict[str, str]:
    """Return the description of each option, from the docstring of the module's record of options."""
    records = (found for name, found in vars(module).items() if name.endswith("Options") and isclass(found))
    record = next(found for found in records if found.__module__ == module.__name__)
    _, _, text = (getdoc(record) or "").partition("Attributes:\n")
    lines = re.sub(r"\n {5,}", " ", text).splitlines()
    found: dict[str, str] = {}
    for line in lines:
        names, _, about = line.strip().partition(": ")
        found.update(dict.fromkeys(names.split(", "), about.rstrip(".")))
    return found


def section(title: str, table: OptionTable, attributes: Mapping[str, str]) -> str:
    """Return the page's section about one kind of store."""
    lines = [f"## {title}", "", "| option | value | what it does | other names |", "|---|---|---|---|"]
    lines += [row(option, option.about or attributes.get(option.name, "")) for option in table.options]
    names = ", ".join(f"`{name}`" for name in sorted(table.ignored))
    lines += ["", f"Accepted and ignored: {names}."]
    return "\n".join([*lines, ""])


def row(option: Option, about: str) -> str:
    """Return an option's line."""
    others = dict.fromkeys(name for name in option.fsspec if name != option.name)
    names = ", ".join(f"`{name}`" for name in others)
    return f"| `{option.name}` | {KINDS[option.kind]} | {about} | {names} |"


def main() -> int:
    """Write the page, or check it."""
    text = page()
    if "--check" in sys.argv[1:]:
        return int(PAGE.read_text("utf-8") != text)
    PAGE.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
