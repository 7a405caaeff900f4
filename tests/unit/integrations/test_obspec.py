"""`as_obspec`: a store with obspec's methods, as obspec's protocols declare them."""

from __future__ import annotations

import obspec
import pytest

import aiozarr
from aiozarr.integrations.obspec import AlreadyExistsError, NotFoundError, as_obspec
from aiozarr.stores import MemoryStore


async def test_objects_are_read_listed_and_written() -> None:
    view = as_obspec(MemoryStore())
    assert set(await view.put_async("a/b", b"hello")) == {"e_tag", "version"}
    result = await view.get_async("a/b", options={"range": (1, 3)})
    assert (bytes(await result.buffer_async()), result.range, result.meta["size"]) == (b"el", (1, 3), 5)
    assert bytes((await view.get_async("a/b", options={"range": {"suffix": 2}})).data) == b"lo"
    assert bytes(await view.get_range_async("a/b", start=1, length=2)) == b"el"
    assert [bytes(each) for each in await view.get_ranges_async("a/b", starts=[0, 3], ends=[1, 5])] == [b"h", b"lo"]
    assert (await view.head_async("a/b"))["path"] == "a/b"
    assert [[meta["path"] for meta in page] async for page in view.list_async("a")] == [["a/b"]]
    assert (await view.list_with_delimiter_async())["common_prefixes"] == ["a"]
    await view.rename_async("a/b", "a/c")
    with pytest.raises(NotFoundError, match="no object 'a/b'"):
        await view.get_async("a/b")
    with pytest.raises(AlreadyExistsError):
        await view.put_async("a/c", [b"x", b"y"], mode="create")
    with pytest.raises(aiozarr.UnsupportedOperationError, match="if_modified_since"):
        await view.get_async("a/c", options={"if_modified_since": 1})
    with pytest.raises(ValueError, match="either end or length"):
        await view.get_range_async("a/c", start=1)


def test_the_blocking_methods_are_the_same() -> None:
    view = as_obspec(MemoryStore())
    view.put("a/b", b"hello")
    assert bytes(view.get("a/b").buffer()) == b"hello"
    assert bytes(view.get_range("a/b", start=1, end=3)) == b"el"
    assert [bytes(each) for each in view.get_ranges("a/b", starts=[0], lengths=[2])] == [b"he"]
    assert view.head("a/b")["size"] == 5
    assert [meta["path"] for page in view.list() for meta in page] == ["a/b"]
    view.copy("a/b", "c")
    view.rename("c", "d")
    view.delete(["a/b"])
    assert view.list_with_delimiter()["objects"][0]["path"] == "d"
    assert repr(view).startswith("ObspecView('memory://")


def test_a_view_has_the_methods_of_obspecs_protocols_for_type_checkers_too() -> None:
    view = as_obspec(MemoryStore())
    # A type checker compares the signatures, one assignment each.
    is_get_async: obspec.GetAsync = view
    is_get_range_async: obspec.GetRangeAsync = view
    is_get_ranges_async: obspec.GetRangesAsync = view
    is_head_async: obspec.HeadAsync = view
    is_list_async: obspec.ListAsync = view
    is_list_with_delimiter_async: obspec.ListWithDelimiterAsync = view
    is_put_async: obspec.PutAsync = view
    is_delete_async: obspec.DeleteAsync = view
    is_copy_async: obspec.CopyAsync = view
    is_rename_async: obspec.RenameAsync = view
    is_get: obspec.Get = view
    is_get_range: obspec.GetRange = view
    is_get_ranges: obspec.GetRanges = view
    is_head: obspec.Head = view
    is_list: obspec.List = view
    is_list_with_delimiter: obspec.ListWithDelimiter = view
    is_put: obspec.Put = view
    is_delete: obspec.Delete = view
    is_copy: obspec.Copy = view
    is_rename: obspec.Rename = view
    taken = [
        is_get_async,
        is_get_range_async,
        is_get_ranges_async,
        is_head_async,
        is_list_async,
        is_list_with_delimiter_async,
        is_put_async,
        is_delete_async,
        is_copy_async,
        is_rename_async,
        is_get,
        is_get_range,
        is_get_ranges,
        is_head,
        is_list,
        is_list_with_delimiter,
        is_put,
        is_delete,
        is_copy,
        is_rename,
    ]
    assert all(each is view for each in taken)
    for name in ("Get", "GetAsync", "GetRange", "GetRanges", "Head", "List", "Put", "Delete", "Copy", "Rename"):
        methods = [method for method in vars(getattr(obspec, name)) if not method.startswith("_")]
        assert all(callable(getattr(view, method)) for method in methods), name
