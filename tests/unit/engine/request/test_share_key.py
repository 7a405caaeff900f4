"""The keys by which readers share requests: equal settings for the outcome, and equal limits for merging."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from typing import Any

import pytest

from aiozarr.engine.request.share_key import DEFAULT_OUTCOME_KEY, InternedKey, merge_key, outcome_key
from aiozarr.settings import Settings


def test_equal_values_have_one_key_as_long_as_it_is_used() -> None:
    key = InternedKey(("store", 1))
    assert InternedKey(("store", 1)) is key
    assert InternedKey(("store", 2)) is not key
    assert key.value == ("store", 1)
    unused = weakref.ref(key)
    del key
    gc.collect()
    assert unused() is None


@pytest.mark.parametrize(
    "change", [{"retries": 1}, {"retry_seconds": 1.5}, {"missing_status": (403, 404)}, {"max_chunk_bytes": 1 << 20}]
)
def test_readers_whose_request_may_end_differently_do_not_share_it(change: dict[str, Any]) -> None:
    assert outcome_key(replace(Settings(), **change)) != DEFAULT_OUTCOME_KEY
    assert merge_key(replace(Settings(), **change)) != merge_key(Settings())


@pytest.mark.parametrize("change", [{"gap": 5}, {"max_over_read": 9.0}, {"max_request_bytes": 1 << 21}])
def test_readers_with_other_limits_of_merging_share_chunks_and_no_merged_requests(change: dict[str, Any]) -> None:
    assert outcome_key(replace(Settings(), **change)) == DEFAULT_OUTCOME_KEY
    assert merge_key(replace(Settings(), **change)) != merge_key(Settings())


@pytest.mark.parametrize("change", [{"missing": "raise"}, {"max_requests": 3}, {"timeout": 5.0}])
def test_settings_of_the_reader_alone_do_not_matter(change: dict[str, Any]) -> None:
    assert merge_key(replace(Settings(), **change)) == merge_key(Settings())
