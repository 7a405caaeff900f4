"""Keys that a cloud would store under another name are refused in words."""

import pytest

from aiozarr.errors import InvalidKeyError
from aiozarr.stores.bucket.store import ObjectStore


@pytest.mark.parametrize(
    ("url", "key", "words"),
    [
        ("az://data/root", "a/bcd./e", "no part of a key ends with a dot: see character 6"),
        ("az://data/root", "a.", "ends with a dot"),
        ("az://data/root", "a\\b", r"keys hold no '\\\\': see character 2"),
        ("gs://bkt/root", "a\nb", r"keys hold no '\\n': see character 2"),
    ],
)
async def test_a_key_that_cannot_be_stored_is_refused_in_words(url: str, key: str, words: str) -> None:
    options = {"account_name": "acct"} if url.startswith("az") else {}
    store = ObjectStore(url, anon=True, **options)
    with pytest.raises(InvalidKeyError, match=words):
        await store.get(key)
