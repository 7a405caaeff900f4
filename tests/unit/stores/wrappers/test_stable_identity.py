"""Stable names are equal if identities are, and mark stores of one process."""

from __future__ import annotations

from typing import Any

import pytest

from aiozarr.stores import CacheStore, HTTPStore, LocalStore, MemoryStore, PrefixStore
from aiozarr.stores.wrappers.stable_identity import stable_name
from aiozarr.testing.fakes import FakeStore


def test_equal_identities_have_equal_names_and_others_have_others() -> None:
    identities: list[Any] = [
        LocalStore("/a").identity,
        LocalStore("/b").identity,
        HTTPStore("http://host/a").identity,
        HTTPStore("http://host/a", auth=("user", "password")).identity,
        PrefixStore(LocalStore("/a"), "b").identity,
        PrefixStore(LocalStore("/a"), "c").identity,
        CacheStore(LocalStore("/a"), 1, max_age=5).identity,
        MemoryStore().identity,
        MemoryStore.named("lasting").identity,
        FakeStore().identity,
        ("a", "b"),
        ("ab",),
        (("a",), "b"),
        ("a", None),
        ("a", 1),
        ("a", "1"),
        (b"a", 1.5),
    ]
    names = [stable_name(each) for each in identities]
    assert len(set(names)) == len(identities)
    assert names == [stable_name(each) for each in identities]


@pytest.mark.parametrize("identity", [MemoryStore.named("x").identity, FakeStore().identity, ("a", frozenset({1}))])
def test_stores_of_one_process_have_other_names_in_other_processes(
    identity: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    nested = (PrefixStore, identity, "a/")
    here = [stable_name.__wrapped__(each) for each in (identity, nested, ("LocalStore", "/a"))]
    monkeypatch.setattr("os.getpid", lambda: 1)
    there = [stable_name.__wrapped__(each) for each in (identity, nested, ("LocalStore", "/a"))]
    assert [a == b for a, b in zip(here, there, strict=True)] == [False, False, True]
