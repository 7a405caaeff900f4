"""Installed packages extend aiozarr by entry points: found by exact names, imported when needed, refused when wrong."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import aiozarr
from aiozarr import plugins
from aiozarr.codecs import get_codec
from aiozarr.errors import UnknownSchemeError, UnsupportedMetadataError
from aiozarr.grid import ChunkGrid, RegularGrid, register_chunk_grid, resolve_grid, resolve_key_encoding
from aiozarr.metadata.data_type import get_data_type
from aiozarr.metadata.records import NamedConfig
from aiozarr.stores import MemoryStore, from_url, register_store

Install = Callable[..., None]

MODULE = '''
"""What a third party ships."""

import numpy as np

from aiozarr.codecs import BytesBytesCodec
from aiozarr.metadata import DataType
from aiozarr.grid import ChunkKeyEncoding, RegularGrid
from aiozarr.stores import MemoryStore


class Inverted(BytesBytesCodec):
    name = "acme.inverted"

    @classmethod
    def from_json(cls, configuration):
        return cls()

    def to_json(self):
        return {}

    def encode(self, data):
        return bytes(255 - byte for byte in bytes(data))

    def decode(self, data, *, max_size, out=None):
        return self.encode(data)

    def compute_encoded_size(self, size):
        return size


class Tiles(RegularGrid):
    name = "acme.tiles"


class Underscores(ChunkKeyEncoding):
    name = "acme.underscores"

    @classmethod
    def from_json(cls, configuration, ndim):
        return cls()

    def to_json(self):
        return {}

    def encode(self, coords):
        return "_".join(["chunk", *map(str, coords)])


def open_acme(url, **options):
    return MemoryStore.named(url.removeprefix("acme://"))


class Half(BytesBytesCodec):
    name = "acme.half"


class Percent(DataType):
    names = ("acme.percent",)
    name = "acme.percent"
    dtype = np.dtype("uint8")

    @classmethod
    def from_configuration(cls, name, configuration, *, member="data_type", strict=False):
        return cls()

    def parse_fill_value(self, value, member="fill_value", *, strict=False):
        return self.make_fill_value(int(value.rstrip("%")))

    def render_fill_value(self, array):
        return f"{int(array)}%"

    def make_fill_value(self, value):
        return np.array(value or 0, self.dtype)
'''


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Lays a distribution into a folder on `sys.path`, as an installer does."""

    def lay(package: str, source: str, **groups: dict[str, str]) -> None:
        folder = tmp_path / package
        info = folder / f"{package}-1.0.dist-info"
        info.mkdir(parents=True)
        (folder / f"{package}.py").write_text(source, "utf-8")
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n", "utf-8")
        lines = [
            line
            for group, names in groups.items()
            for line in (f"[aiozarr.{group}]", *(f"{name} = {value}" for name, value in names.items()))
        ]
        (info / "entry_points.txt").write_text("\n".join(lines), "utf-8")
        monkeypatch.syspath_prepend(str(folder))
        plugins.forget_plugins()

    before = set(sys.modules)
    yield lay
    for name in set(sys.modules) - before:
        if name.startswith("acme"):
            del sys.modules[name]
    monkeypatch.undo()
    plugins.forget_plugins()


@pytest.fixture
def acme(install: Install) -> None:
    install(
        "acme_zarr",
        MODULE,
        codecs={"acme.inverted": "acme_zarr:Inverted", "acme.half": "acme_zarr:Half", "acme.text": "acme_zarr:__doc__"},
        data_types={"acme.percent": "acme_zarr:Percent"},
        chunk_grids={"acme.tiles": "acme_zarr:Tiles", "acme.wrong": "acme_zarr:Inverted"},
        chunk_key_encodings={"acme.underscores": "acme_zarr:Underscores"},
        stores={"acme": "acme_zarr:open_acme", "acme-text": "acme_zarr:__doc__", "acme-bad": "acme_zarr:dict"},
    )


@pytest.mark.usefixtures("acme")
async def test_an_array_with_the_codec_type_grid_and_key_encoding_of_a_package_is_written_and_read() -> None:
    store = from_url("acme://extended")
    assert store == MemoryStore.named("extended")
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [6],
        "data_type": "acme.percent",
        "fill_value": "50%",
        "chunk_grid": {"name": "acme.tiles", "configuration": {"chunk_shape": [2]}},
        "chunk_key_encoding": {"name": "acme.underscores"},
        "codecs": [{"name": "bytes"}, {"name": "acme.inverted"}],
    }
    await store.set("zarr.json", json.dumps(document).encode())
    array = await aiozarr.open_array("acme://extended", mode="r+")
    await array[:4].write(np.array([1, 2, 3, 4], np.uint8))
    assert sorted(await store.list()) == ["chunk_0", "chunk_1", "zarr.json"]
    assert await store.get("chunk_1") == bytes([252, 251])
    assert list(await array[1:]) == [2, 3, 4, 50, 50]


@pytest.mark.usefixtures("acme")
def test_nothing_is_imported_before_its_name_is_asked_for() -> None:
    assert "acme.inverted" in plugins.announced("codec")
    assert get_codec("gzip").name == "gzip"
    assert "acme_zarr" not in sys.modules
    assert get_codec("acme.inverted").__module__ == "acme_zarr"


@pytest.mark.usefixtures("acme")
@pytest.mark.parametrize("name", ["Acme.inverted", "acme.inverted ", "acme", "acme_zarr:Inverted", ""])
def test_names_are_exact(name: str) -> None:
    with pytest.raises(UnsupportedMetadataError, match=r"^unknown codec .*aiozarr\.codecs\.register"):
        get_codec(name)


@pytest.mark.usefixtures("acme")
@pytest.mark.parametrize(
    ("name", "reason"),
    [("acme.half", "abstract: it lacks"), ("acme.text", "a subclass of ArrayArrayCodec or")],
)
def test_what_is_not_of_its_kind_is_refused_with_the_name_of_the_package(name: str, reason: str) -> None:
    with pytest.raises(UnsupportedMetadataError, match=f"the package acme_zarr .*{reason}") as refused:
        get_codec(name)
    assert (refused.value.point, refused.value.name) == ("codec", name)
    with pytest.raises(UnsupportedMetadataError, match="ChunkGrid is wanted"):
        resolve_grid(NamedConfig("acme.wrong"), (4,))


@pytest.mark.parametrize("source", ["raise RuntimeError('no licence')", "import nowhere_at_all", "x ="])
def test_a_package_that_fails_to_import_is_named(install: Install, source: str) -> None:
    install("acme_broken", source, codecs={"acme.broken": "acme_broken:Codec"})
    with pytest.raises(UnsupportedMetadataError, match=r"the package acme_broken .* fails to load") as refused:
        get_codec("acme.broken")
    assert refused.value.__cause__ is not None


def test_a_name_that_two_packages_announce_is_refused(install: Install) -> None:
    install("acme_one", MODULE, codecs={"acme.twice": "acme_one:Inverted"})
    install("acme_two", MODULE, codecs={"acme.twice": "acme_two:Inverted"})
    with pytest.raises(UnsupportedMetadataError, match="acme_one and acme_two both announce it"):
        get_codec("acme.twice")


def test_what_aiozarr_has_itself_is_not_replaced_by_a_package(install: Install) -> None:
    install("acme_zarr", MODULE, codecs={"gzip": "acme_zarr:Inverted"}, stores={"memory": "acme_zarr:open_acme"})
    assert get_codec("gzip").__module__.startswith("aiozarr.")
    assert from_url("memory://kept") == MemoryStore.named("kept")
    assert "acme_zarr" not in sys.modules


@pytest.mark.usefixtures("acme")
def test_a_scheme_that_does_not_open_is_refused_with_the_name_of_the_package() -> None:
    with pytest.raises(UnknownSchemeError, match=r"the package acme_zarr .*callable"):
        from_url("acme-text://x")
    with pytest.raises(UnknownSchemeError, match=r"the package acme_zarr .* fails to load"):
        from_url("acme-bad://x")
    with pytest.raises(UnknownSchemeError, match=r"acme://"):
        from_url("acme-not://x")


def test_an_unknown_name_says_what_is_known_and_how_to_add_to_it() -> None:
    with pytest.raises(UnsupportedMetadataError, match=r"known: [0-9]+ names.*codecs\.register.*'aiozarr\.codecs'"):
        get_codec("acme.unknown")
    with pytest.raises(UnsupportedMetadataError, match=r"regular.*register_chunk_grid.*'aiozarr\.chunk_grids'"):
        resolve_grid(NamedConfig("acme.unknown"), (4,))
    with pytest.raises(UnsupportedMetadataError, match=r"default.*register_chunk_key_encoding"):
        resolve_key_encoding(NamedConfig("acme.unknown"), 1)


@pytest.mark.parametrize(
    ("name", "suggested"), [("gzipp", "gzip"), ("lz4", "numcodecs.lz4"), ("numcodecs.cast_value", "cast_value")]
)
def test_of_many_known_names_a_message_lists_those_that_are_most_like_the_unknown_one(
    name: str, suggested: str
) -> None:
    with pytest.raises(UnsupportedMetadataError) as caught:
        get_codec(name)
    listed = caught.value.message.partition("known: ")[2].partition(". Another")[0].split(", ")
    assert suggested in listed
    assert len(listed) <= 8


@pytest.mark.parametrize("name", ["a" * 10_000, "complex_float", "numcodecs." * 1000])
def test_the_message_about_an_unknown_name_is_short_whatever_the_name(name: str) -> None:
    for ask in (get_codec, get_data_type):
        with pytest.raises(UnsupportedMetadataError) as caught:
            ask(name)
        assert len(str(caught.value)) < 700


def test_every_hint_names_a_function_that_exists() -> None:
    for name in plugins._REGISTER.values():
        module, _, function = name.rpartition(".")
        __import__(module)
        assert callable(getattr(sys.modules[module], function)), name


def test_a_store_is_registered_by_scheme() -> None:
    @register_store("acme-here")
    def opener(url: str, **options: object) -> MemoryStore:
        assert options == {"key": 1}
        return MemoryStore.named(url.removeprefix("acme-here://"))

    assert from_url("ACME-HERE://x", key=1) == MemoryStore.named("x")
    with pytest.raises(ValueError, match="scheme"):
        register_store("no scheme")(opener)


def test_grids_of_a_package_are_grids() -> None:
    with pytest.raises(TypeError, match="ChunkGrid"):
        register_chunk_grid(dict)  # type: ignore[type-var]
    assert issubclass(RegularGrid, ChunkGrid)
