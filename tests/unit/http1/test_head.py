"""The head of an answer: which value counts where a header comes twice."""

from aiozarr.http1.head import ParsedHead


def test_of_a_header_that_comes_twice_the_last_counts_but_hashes_are_put_together() -> None:
    lines = ["HTTP/1.1 200 OK", "X-Goog-Hash: crc32c=AAAAAA==", "A: 1", "x-goog-hash: md5=x", "a: 2", "", ""]
    head = ParsedHead("\r\n".join(lines).encode())
    assert head.headers == {b"x-goog-hash": b"crc32c=AAAAAA==,md5=x", b"a": b"2"}
