"""Extensions from entry points: exact names, import on first use, rejection of wrong objects."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr import plugins
from aiozarr.codecs import get_codec
from aiozarr.errors import UnknownSchemeError, UnsupportedMetadataError
from aiozarr.grid import ChunkGrid, register_chunk_grid
from aiozarr.grid.chunk_grid import RegularGrid, resolve_grid
from aiozarr.grid.key_encoding import resolve_key_encoding
from aiozarr.metadata.data_type import get_data_type
from aiozarr.metadata.records import NamedConfig
from aiozarr.plugins import ClassRegistry, SharedResults, check_members
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
    name = "vendor.inverted"

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
    name = "vendor.tiles"


class Underscores(ChunkKeyEncoding):
    name = "vendor.underscores"

    @classmethod
    def from_json(cls, configuration, ndim):
        return cls()

    def to_json(self):
        return {}

    def encode(self, coords):
        return "_".join(["chunk", *map(str, coords)])


def open_vendor(url, **options):
    return MemoryStore.named(url.removeprefix("vendor://"))


class Half(BytesBytesCodec):
    name = "vendor.half"


class Percent(DataType):
    names = ("vendor.percent",)
    name = "vendor.percent"
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
        plugins.clear_entry_points()

    before = set(sys.modules)
    yield lay
    for name in set(sys.modules) - before:
        if name.startswith("vendor"):
            del sys.modules[name]
    monkeypatch.undo()
    plugins.clear_entry_points()


@pytest.fixture
def vendor(install: Install) -> None:
    install(
        "vendor_zarr",
        MODULE,
        codecs={
            "vendor.inverted": "vendor_zarr:Inverted",
            "vendor.half": "vendor_zarr:Half",
            "vendor.text": "vendor_zarr:__doc__",
        },
        data_types={"vendor.percent": "vendor_zarr:Percent"},
        chunk_grids={"vendor.tiles": "vendor_zarr:Tiles", "vendor.wrong": "vendor_zarr:Inverted"},
        chunk_key_encodings={"vendor.underscores": "vendor_zarr:Underscores"},
        stores={
            "vendor": "vendor_zarr:open_vendor",
            "vendor-text": "vendor_zarr:__doc__",
            "vendor-bad": "vendor_zarr:dict",
        },
    )


@pytest.mark.usefixtures("vendor")
async def test_an_array_with_the_codec_type_grid_and_key_encoding_of_a_package_is_written_and_read() -> None:
    store = from_url("vendor://extended")
    assert store == MemoryStore.named("extended")
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [6],
        "data_type": "vendor.percent",
        "fill_value": "50%",
        "chunk_grid": {"name": "vendor.tiles", "configuration": {"chunk_shape": [2]}},
        "chunk_key_encoding": {"name": "vendor.underscores"},
        "codecs": [{"name": "bytes"}, {"name": "vendor.inverted"}],
    }
    await store.set("zarr.json", json.dumps(document).encode())
    array = await aiozarr.open_array("vendor://extended", mode="r+")
    await array[:4].write(np.array([1, 2, 3, 4], np.uint8))
    assert sorted(await store.list()) == ["chunk_0", "chunk_1", "zarr.json"]
    assert await store.get("chunk_1") == bytes([252, 251])
    assert list(await array[1:]) == [2, 3, 4, 50, 50]


@pytest.mark.usefixtures("vendor")
def test_an_entry_point_is_imported_on_first_use() -> None:
    assert "vendor.inverted" in plugins.entry_point_names("codec")
    assert get_codec("gzip").name == "gzip"
    assert "vendor_zarr" not in sys.modules
    assert get_codec("vendor.inverted").__module__ == "vendor_zarr"


@pytest.mark.usefixtures("vendor")
@pytest.mark.parametrize("name", ["Acme.inverted", "vendor.inverted ", "vendor", "vendor_zarr:Inverted", ""])
def test_names_are_exact(name: str) -> None:
    with pytest.raises(UnsupportedMetadataError, match=r"^unknown codec .*aiozarr\.codecs\.register_codec"):
        get_codec(name)


@pytest.mark.usefixtures("vendor")
@pytest.mark.parametrize(
    ("name", "reason"),
    [("vendor.half", "abstract; it needs"), ("vendor.text", "a subclass of ArrayArrayCodec or")],
)
def test_an_entry_point_of_the_wrong_kind_is_rejected_with_the_name_of_the_package(name: str, reason: str) -> None:
    with pytest.raises(UnsupportedMetadataError, match=f"the package vendor_zarr .*{reason}") as refused:
        get_codec(name)
    assert (refused.value.point, refused.value.name) == ("codec", name)
    with pytest.raises(UnsupportedMetadataError, match="expected a subclass of ChunkGrid"):
        resolve_grid(NamedConfig("vendor.wrong"), (4,))


@pytest.mark.parametrize("source", ["raise RuntimeError('no licence')", "import nowhere_at_all", "x ="])
def test_a_package_that_fails_to_import_is_named(install: Install, source: str) -> None:
    install("vendor_broken", source, codecs={"vendor.broken": "vendor_broken:Codec"})
    with pytest.raises(UnsupportedMetadataError, match=r"the package vendor_broken .* fails to load") as refused:
        get_codec("vendor.broken")
    assert refused.value.__cause__ is not None


def test_a_name_that_two_packages_register_is_rejected(install: Install) -> None:
    install("vendor_one", MODULE, codecs={"vendor.twice": "vendor_one:Inverted"})
    install("vendor_two", MODULE, codecs={"vendor.twice": "vendor_two:Inverted"})
    with pytest.raises(UnsupportedMetadataError, match="vendor_one and vendor_two both register it"):
        get_codec("vendor.twice")


def test_names_of_aiozarr_are_not_replaced_by_entry_points(install: Install) -> None:
    install(
        "vendor_zarr", MODULE, codecs={"gzip": "vendor_zarr:Inverted"}, stores={"memory": "vendor_zarr:open_vendor"}
    )
    assert get_codec("gzip").__module__.startswith("aiozarr.")
    assert from_url("memory://kept") == MemoryStore.named("kept")
    assert "vendor_zarr" not in sys.modules


@pytest.mark.usefixtures("vendor")
def test_a_scheme_that_does_not_open_is_rejected_with_the_name_of_the_package() -> None:
    with pytest.raises(UnknownSchemeError, match=r"the package vendor_zarr .*callable"):
        from_url("vendor-text://x")
    with pytest.raises(UnknownSchemeError, match=r"the package vendor_zarr .* fails to load"):
        from_url("vendor-bad://x")
    with pytest.raises(UnknownSchemeError, match=r"vendor://"):
        from_url("vendor-not://x")


def test_the_error_of_an_unknown_name_lists_known_names_and_how_to_register_one() -> None:
    with pytest.raises(
        UnsupportedMetadataError, match=r"none of the [0-9]+ known names.*codecs\.register_codec.*'aiozarr\.codecs'"
    ):
        get_codec("vendor.unknown")
    with pytest.raises(UnsupportedMetadataError, match=r"regular.*register_chunk_grid.*'aiozarr\.chunk_grids'"):
        resolve_grid(NamedConfig("vendor.unknown"), (4,))
    with pytest.raises(UnsupportedMetadataError, match=r"default.*register_chunk_key_encoding"):
        resolve_key_encoding(NamedConfig("vendor.unknown"), 1)


@pytest.mark.parametrize(
    ("name", "suggested"), [("gzipp", "gzip"), ("lz4", "numcodecs.lz4"), ("numcodecs.cast_value", "cast_value")]
)
def test_a_message_lists_the_most_similar_of_many_known_names(name: str, suggested: str) -> None:
    with pytest.raises(UnsupportedMetadataError) as caught:
        get_codec(name)
    nearest, _, others = caught.value.message.partition("did you mean ")[2].partition("?")
    listed = [nearest.strip("'"), *others.partition("Similar: ")[2].partition(". To add")[0].split(", ")]
    assert suggested in listed
    assert len(listed) <= 8


@pytest.mark.parametrize("name", ["a" * 10_000, "complex_float", "numcodecs." * 1000])
def test_the_message_about_an_unknown_name_is_short_for_any_name(name: str) -> None:
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
    @register_store("vendor-here")
    def opener(url: str, **options: object) -> MemoryStore:
        assert options == {"key": 1}
        return MemoryStore.named(url.removeprefix("vendor-here://"))

    assert from_url("VENDOR-HERE://x", key=1) == MemoryStore.named("x")
    with pytest.raises(ValueError, match="scheme"):
        register_store("no scheme")(opener)


def test_grids_of_a_package_are_grids() -> None:
    with pytest.raises(TypeError, match="ChunkGrid"):
        register_chunk_grid(dict)  # type: ignore[type-var]
    assert issubclass(RegularGrid, ChunkGrid)


def test_an_extension_of_aiozarr_is_imported_when_it_is_asked_for_and_replaces_none() -> None:
    class Own:
        pass

    registry: ClassRegistry[object] = ClassRegistry("codec", object, package="json", modules={"decoder": "one two"})
    assert registry.find("one") is None
    assert registry.find("other") is None
    registry.add("one", Own)
    registry.add("one", json.JSONDecoder)  # as its module does, late
    assert registry.find("one") is Own
    registry.add("two", json.JSONDecoder)
    registry.add("two", Own)
    assert registry.find("two") is Own


def test_known_members_and_members_that_may_be_ignored_are_accepted() -> None:
    check_members({"a": 1, "b": {"must_understand": False}}, ("a",), point="chunk_grid", name="regular")


def test_an_unknown_member_is_rejected_with_its_path() -> None:
    for value in (1, {}, {"must_understand": True}):
        with pytest.raises(UnsupportedMetadataError) as caught:
            check_members({"a": 1, "b": value}, ("a",), point="chunk_grid", name="regular")
        assert (caught.value.member, caught.value.name) == ("chunk_grid.configuration.b", "regular")


def test_equal_descriptions_share_one_result_until_an_extension_is_registered() -> None:
    shared: SharedResults[object] = SharedResults()
    described = [("zstd", {"level": 1})]
    first = shared.get(described, (4, 4), make=object)
    assert shared.get([("zstd", {"level": 1})], (4, 4), make=object) is first
    assert shared.get(described, (4, 5), make=object) is not first
    # They are equal, and not valid in the place of an integer.
    for value in (True, 1.0):
        assert shared.get([("zstd", {"level": value})], (4, 4), make=object) is not first
    registry: ClassRegistry[Any] = ClassRegistry("codec", object, package="aiozarr.codecs", modules={})
    registry.add("another", int)
    assert shared.get(described, (4, 4), make=object) is not first


def test_shared_results_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiozarr.plugins._MAX_SHARED_RESULTS", 3)
    monkeypatch.setattr("aiozarr.plugins._MAX_SHARED_BYTES", 100)
    shared: SharedResults[object] = SharedResults()
    for number in range(10):
        assert shared.get(number, make=object) is shared.get(number, make=object)
        assert len(shared._made) <= 3
    for long in (["x" * 200], [1]):
        assert shared.get(long, b"y" * 200, make=object) is not shared.get(long, b"y" * 200, make=object)
    # What JSON does not have is never shared.
    assert shared.get(MappingProxyType({}), make=object) is not shared.get(MappingProxyType({}), make=object)
