"""URLs, specs of TensorStore, and tables of references, as users of a service may send them."""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import fsspec

import aiozarr
from aiozarr.driver import TensorView
from aiozarr.stores import MemoryStore, from_url
from tests.fuzz.behind_open import SETTINGS, called, look
from tests.fuzz.document_targets import DATA, Documents
from tests.fuzz.mutate import JsonMutator, decoded, encoded, mutated_text, plain
from tests.fuzz.target import Target
from tests.fuzz.watchdog import allowed
from tests.support.remote_arrays import document

URLS = [
    *(
        "memory://name/a/b.zarr",
        "memory://n%20a",
        "file:///tmp/absent/a.zarr",
        "file://localhost/absent/x",
        "~absent/a",
    ),
    *("http://127.0.0.1:1/a%20b/c.zarr?x=1&y=2#f", "https://user:secret@127.0.0.1:1/a/", "http://[::1]:1/a/b.zip"),
    *("s3://bucket/a/b c.zarr", "gs://bucket/a", "gcs://bucket/a%2Fb", "az://container/a", "abfs://container/a"),
    *("abfss://container@account.dfs.core.windows.net/a", "az://container@account.blob.core.windows.net/a"),
    *("https://account.blob.core.windows.net/container/a?sv=1&sig=x", "https://bucket.s3.us-east-1.amazonaws.com/a"),
    *("zip::memory://n/a.zip!/b/c", "zip://inner::memory://n/a.zip", "zip::/absent/a.zip!/b", "/absent/a.zip/b/c"),
    *(
        "/absent/a.zarr",
        "a/../b",
        "C:\\data\\a.zarr",
        "\\\\server\\share",
        "s3:/bucket/a",
        "nonsense://x/y",
        "::",
        "://",
    ),
]
OPENED = ("memory:", "file:", "zip::memory:", "zip::/absent", "/absent")
OWN = {"memory", "file", "http", "https", "s3", "gs", "gcs", "az", "abfs", "abfss", "zip"}
PROTOCOLS = [name for name in fsspec.available_protocols() if name not in OWN]


class Urls(Target):
    """Locations: a store or an error. Those of this machine and of memory are opened too."""

    name = "urls"
    quick = 200

    async def prepare(self) -> None:
        pass

    def draw(self, rng: Random) -> str:
        return mutated_text(rng, rng.choice(URLS), [*URLS, "!/", "::", "%2e%2e", "[", "]", "@", ":", "?", "#", "65536"])

    async def run(self, value: str) -> None:
        if _is_foreign(value):
            return
        # A URL that is not complete is a mistake in the call.
        store = await allowed(called(from_url, value), known=(ValueError, TypeError, ImportError))
        if isinstance(store, BaseException):
            return
        assert repr(store)
        await allowed(called(store.url_of, "a b/ü%"), known=(ValueError,))
        await allowed(store.aclose())
        if value.startswith(OPENED):
            await allowed(aiozarr.open(value, settings=SETTINGS), known=(ValueError, TypeError, ImportError))


def _is_foreign(url: str) -> bool:
    """Whether fsspec opens a location: it knows dozens of protocols, some of which connect while they are opened."""
    return any(f"{name}:" in url.lower() for name in PROTOCOLS)


def specs_of_pairs() -> list[Any]:
    """The specs that were given to TensorStore."""
    specs: list[Any] = []
    for path in sorted((DATA / "tensorstore-pairs").glob("*.json")):
        for pair in json.loads(path.read_text("utf-8")):
            if isinstance(pair, dict) and isinstance(pair.get("spec"), dict):
                spec = pair["spec"]
                if "shape" in spec and "chunk_layout" in spec:
                    spec = {"schema": {"domain": {"shape": spec["shape"]}, "chunk_layout": spec["chunk_layout"]}}
                specs.append(spec)
    return specs


NEW = {"driver": "zarr3", "kvstore": {"driver": "memory", "path": "a/"}, "create": True, "dtype": "uint8"}
VALID: list[dict[str, Any]] = [
    {
        "schema": {
            "domain": {"shape": [1000, 1000, 1000], "labels": ["x", "y", ""]},
            "chunk_layout": {"chunk": {"aspect_ratio": [1, 2, 1], "elements": 12345}},
        }
    },
    {
        "schema": {
            "domain": {"inclusive_min": [0, 0], "exclusive_max": [2**31, [3]]},
            "chunk_layout": {"read_chunk": {"elements": 2**20}, "write_chunk": {"shape": [2**30 - 35, 3]}},
            "fill_value": 3,
            "dimension_units": ["4 nm", None],
        }
    },
    {
        "metadata": {
            "shape": [10, 20],
            "data_type": "uint8",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [5, 10]}},
            "chunk_key_encoding": {"name": "v2", "configuration": {"separator": "/"}},
            "codecs": [{"name": "sharding_indexed", "configuration": {"chunk_shape": [5, 5], "codecs": ["bytes"]}}],
        },
        "transform": {
            "input_inclusive_min": [1, 2],
            "input_exclusive_max": [5, 6],
            "output": [{"input_dimension": 1, "stride": 1}, {"index_array": [[1, 1, 2, 3]] * 4}],
        },
    },
    {
        "open": True,
        "context": {"cache_pool": {"total_bytes_limit": 1000}, "data_copy_concurrency": {"limit": 3}},
        "cache_pool": "cache_pool",
        "recheck_cached_data": 12.5,
        "recheck_cached_metadata": "open",
        "rank": 2,
        "schema": {
            "domain": {"shape": [10, 20]},
            "chunk_layout": {
                "read_chunk": {"shape_soft_constraint": [5, None]},
                "inner_order": [1, 0],
                "grid_origin": [0, 0],
            },
            "codec": {"driver": "zarr3", "codecs": [{"name": "blosc", "configuration": {"clevel": 3}}]},
        },
    },
    {"driver": "zarr", "dtype": "int16", "schema": {"domain": {"shape": [4, 5]}, "codec": {"driver": "zarr"}}},
    {
        "driver": "zarr",
        "dtype": "int16",
        "metadata": {"shape": [4, 5], "chunks": [2, 3], "filters": None, "order": "F"},
    },
]
MAX_CHUNK_BYTES = 4 << 20
"""A spec has no limits of its own, and may describe chunks of up to 1 GiB."""


class Specs(Target):
    """Specs of TensorStore, whose arrays are created, read, written and resized in memory."""

    name = "specs"
    quick = 120

    async def prepare(self) -> None:
        specs = [{**NEW, **spec} for spec in VALID]
        specs += [
            {**NEW, **spec} for spec in specs_of_pairs() if spec.get("driver") in (None, "zarr", "zarr2", "zarr3")
        ]
        self._specs = [decoded(encoded(spec)) for spec in specs]
        self._mutator = JsonMutator(self._specs)

    def draw(self, rng: Random) -> Any:
        spec = rng.choice(self._specs[: len(VALID)] if rng.randrange(2) else self._specs)
        return _in_memory(plain(self._mutator.changed(rng, spec)))

    async def run(self, value: Any) -> None:
        if not isinstance(value, dict):
            return
        await MemoryStore.named("a").erase_prefix("")
        await use_view(await allowed(aiozarr.open(value)))


async def use_view(view: object) -> None:
    """Describe a view, and read and write its first elements, if the spec could be opened."""
    if not isinstance(view, TensorView):
        return
    assert repr(view)
    json.dumps(view.spec())
    json.dumps(view.schema.to_json())
    if _chunk_bytes(view) > MAX_CHUNK_BYTES:
        return
    small = view
    for axis, (start, length) in enumerate(zip(view.origin, view.shape, strict=True)):
        small = small[(slice(None),) * axis + (slice(start, start + min(length, 3)),)]
    got = await allowed(small.read())
    if not isinstance(got, BaseException):
        await allowed(small.write(got))


def _chunk_bytes(view: TensorView) -> int:
    size = view.array.itemsize
    for lengths in view.array.chunks:
        size *= max(lengths) if isinstance(lengths, tuple) else lengths
    return size


def _in_memory(value: Any) -> Any:
    """Return a spec whose locations are all in memory: others would be opened, and written to."""
    if isinstance(value, dict):
        value = {name: _in_memory(each) for name, each in value.items()}
        if "kvstore" in value or value.get("driver") not in (None, "zarr", "zarr2", "zarr3", "blosc"):
            kvstore = value.get("kvstore")
            if isinstance(kvstore, dict):
                kvstore = {**kvstore, "driver": "memory"} if isinstance(kvstore.get("driver"), str) else kvstore
            elif isinstance(kvstore, str) and not kvstore.startswith("memory://"):
                kvstore = "memory://a/"
            value = {**value, **({"kvstore": kvstore} if "kvstore" in value else {})}
        return value
    return [_in_memory(each) for each in value] if isinstance(value, list) else value


class StoredSpecs(Documents):
    """Mutated documents of arrays, opened by a spec of TensorStore."""

    name = "stored-specs"
    quick = 60

    async def run(self, value: tuple[dict[str, bytes], str, int]) -> None:
        values, case, ways = value
        store = MemoryStore.named("a")
        await store.erase_prefix("")
        for key, data in {**await self.objects(case), **values}.items():
            await store.set(key, data)
        driver = "zarr3" if "zarr.json" in values else "zarr"
        spec: dict[str, Any] = {"driver": driver, "kvstore": {"driver": "memory", "path": "a/"}, "open": True}
        if ways % 4 == 0:
            spec |= {"create": True, **VALID[ways % len(VALID)], "driver": driver, "dtype": "int16"}
        await use_view(await allowed(aiozarr.open(spec)))


class References(Target):
    """Tables of references (kerchunk's JSON) to files beside them."""

    name = "references"
    quick = 25

    async def prepare(self) -> None:
        self._folder = Path(self.resources.enter_context(tempfile.TemporaryDirectory()))
        (self._folder / "data.bin").write_bytes(bytes(range(200)))
        data = "@DATA@"  # the folder has another name in each process
        refs = {
            "zarr.json": json.dumps(document([8], [2], codecs=["bytes"], dtype="uint8")),
            "c/0": [data, 0, 2],
            "c/1": [data, 198, 2],
            "c/2": "ab",
            "c/3": "base64:AQI=",
            "a/b": ["{{u}}", 1, 1],
        }
        version1 = {"version": 1, "templates": {"u": data}, "refs": refs}
        generated = {
            "gen": [{"key": "c/{{i}}", "url": data, "offset": "{{i}}", "length": "2", "dimensions": {"i": [0, 1]}}]
        }
        self._tables = [decoded(json.dumps(each)) for each in (refs, version1, {**version1, **generated})]
        self._mutator = JsonMutator(self._tables)

    def draw(self, rng: Random) -> tuple[bytes, int]:
        return self._mutator.text(rng, rng.choice(self._tables)), rng.getrandbits(32)

    async def run(self, value: tuple[bytes, int]) -> None:
        text, ways = value
        path = self._folder / f"{ways}.json"
        path.write_bytes(text.replace(b"@DATA@", str(self._folder / "data.bin").encode()))
        url = f"reference::{path.as_uri()}"
        try:
            node = await allowed(aiozarr.open(url, settings=SETTINGS), known=(ValueError, TypeError))
            if isinstance(node, aiozarr.Array | aiozarr.Group):
                await look(node, Random(ways))
                await node.aclose()
        finally:
            await asyncio.to_thread(path.unlink)
