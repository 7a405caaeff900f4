"""Write docs/stores/storage-options.md from the tables of options; `--check` only checks that it is up to date."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from importlib import import_module
from inspect import getdoc, isclass
from pathlib import Path
from textwrap import wrap
from types import ModuleType

from aiozarr.stores.option_table import Option, OptionTable

PAGE = Path(__file__).parents[1] / "docs" / "stores" / "storage-options.md"
TABLES = {
    "s3.address": "S3",
    "gcs.address": "Google Cloud Storage",
    "azure.address": "Azure Blob Storage",
    "http.http_options": "HTTP",
}

HEAD = """\
# Storage options

`storage_options` configures how a store is reached. If the cloud's own tools work on this machine, you need none:
aiozarr uses the same credentials, endpoints and regions.

```python
import aiozarr

array = await aiozarr.create_array(
    "s3://weather/wind.zarr",
    data=[1, 2, 3],
    storage_options={
        "endpoint_url": "http://127.0.0.1:9000",
        "key": "minioadmin",
        "secret": "minioadmin",
        "region": "us-east-1",
    },
)
```

- The names that fsspec's file systems (s3fs, gcsfs, adlfs, HTTP) use for the same things work too: the tables list
  them after "also". `client_kwargs.verify` stands for `{"client_kwargs": {"verify": ...}}`.
- Options under the name of a protocol, such as `{"s3": {"anon": True}}`, apply to that link of a chain of URLs.
- An option that is None counts as missing. An unknown option is a `TypeError` that suggests the nearest name.
- `cache_directory`, a local path, [caches values](../how-to/which-cache.md#a-directory-with-only-a-url) of any remote
  store except fsspec file systems.
- Durations are seconds or a `timedelta`.
- Options for which aiozarr has another mechanism, such as caches, block sizes and event loops, are accepted and
  ignored.

The pages of the stores say where missing options come from: [S3](s3.md#where-each-setting-comes-from),
[Google](gcs.md#where-each-setting-comes-from), [Azure](azure.md#where-the-server-comes-from).
`scripts/make_option_docs.py` writes this page from the code that reads the options.
"""

OTHERS = """\
## Local disk

| option | value | meaning |
|---|---|---|
| `fsync` | yes or no | flush each write to the device: see [local disk](local.md#choose-when-to-flush) |

## Zip archives

| option | value | meaning |
|---|---|---|
| `duplicates` | text | for names that are there twice: `last` (the default) reads the last one, `refuse` is an error |
| `max_member_bytes` | number | a compressed member that decompresses to more is a `LimitError`; 1 GiB by default |
| `fsync` | yes or no | flush the archive to the device when it is closed; on the local disk only |

All other options are for the store that contains the archive.

## Virtual references

| option | value | meaning |
|---|---|---|
| `fo` | text or mapping | the document, for the URL `reference://`: a URL, a path, or the references themselves |
| `resolve` | mapping | locations outside the document's origin that it may name, each with the options of its store |
| `target_options` | mapping | options of the store that contains the document |
| `remote_protocol` | text | allow all locations of this protocol |
| `remote_options` | mapping | their options |

[Virtual references](../integrations/virtual-references.md) has examples.
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
    return "\n".join([*parts, OTHERS])


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
    lines = [f"## {title}", "", "| option | value | meaning |", "|---|---|---|"]
    lines += [row(option, option.about or attributes.get(option.name, "")) for option in table.options]
    names = ", ".join(f"`{name}`" for name in sorted(table.ignored.difference(table.names)))
    lines += ["", *wrap(f"Accepted and ignored: {names}.", 120)]
    return "\n".join([*lines, ""])


def row(option: Option, about: str) -> str:
    """Return an option's line."""
    others = dict.fromkeys(name for name in option.fsspec if name != option.name)
    also = f"; also {', '.join(f'`{name}`' for name in others)}" if others else ""
    return f"| `{option.name}` | {KINDS[option.kind]} | {about}{also} |"


def main() -> int:
    """Write the page, or check it."""
    text = page()
    if "--check" in sys.argv[1:]:
        return int(PAGE.read_text("utf-8") != text)
    PAGE.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
