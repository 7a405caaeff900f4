"""Reading through obstore, where the credentials are its own finding and the lane cannot have them."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

from aiozarr.errors import AiozarrError, StoreTimeoutError
from aiozarr.model import ByteRange, Range
from aiozarr.stores.http.errors import error_code
from aiozarr.stores.lane import SLOWEST_BYTES_PER_SECOND, Answer, Want, judge
from aiozarr.stores.lane.head import Headers
from aiozarr.stores.lane.judge import NOTE, NOTE_BYTES
from aiozarr.stores.obstore.errors import NO_TOKEN, is_foreign, translate

if TYPE_CHECKING:
    from obstore.store import AzureStore

_STATUS = re.compile(r"status code: (\d{3})")


async def ask(client: AzureStore, method: str, key: str, want: Want, idle_timeout: float) -> Answer:
    """Send a GET or HEAD for `key` and return its answer as the lane would have given it.

    Args:
        client: obstore's client.
        method: GET or HEAD.
        key: the object's key.
        want: what the answer must bring; its range is no suffix, which Azure refuses.
        idle_timeout: seconds until the head of the answer comes; the body may take its time besides.

    Raises:
        StoreError: no answer came.
    """
    try:
        async with asyncio.timeout(2 * idle_timeout) as limit:
            return await (_head(client, key, want) if method == "HEAD" else _get(client, key, want, limit))
    except TimeoutError as error:
        raise StoreTimeoutError(f"no answer within {2 * idle_timeout:g} s and what its bytes may take") from error
    except BaseException as error:
        if not is_foreign(error):
            raise
        answer = _refusal(error)
        if answer is None:
            raise translate(error) from error
        return answer


async def _get(client: AzureStore, key: str, want: Want, limit: asyncio.Timeout | None = None) -> Answer:
    import obstore

    result = await obstore.get_async(client, key, options=_options(want))  # type: ignore[arg-type]
    meta, (start, stop) = result.meta, result.range
    headers: Headers = {b"content-length": b"%d" % (stop - start)}
    if meta["e_tag"] is not None:
        headers[b"etag"] = meta["e_tag"].encode("latin-1")
    status = 200
    if want.range is not None:
        status = 206
        headers[b"content-range"] = b"bytes %d-%d/%d" % (start, stop - 1, meta["size"])
    verdict = judge(want, status, headers)
    if isinstance(verdict, AiozarrError):
        raise verdict
    deadline = None if limit is None else limit.when()
    if limit is not None and deadline is not None:
        limit.reschedule(deadline + (stop - start) / SLOWEST_BYTES_PER_SECOND)
    return Answer(status, headers, verdict, await result.bytes_async())


async def _head(client: AzureStore, key: str, want: Want) -> Answer:
    import obstore

    try:
        meta = await obstore.head_async(client, key)
    except FileNotFoundError:
        # Without a body the answer does not tell whether it is the container that is missing: that of a GET does.
        await obstore.get_async(client, key, options={"range": (0, 1)})
        raise
    headers: Headers = {b"content-length": b"%d" % meta["size"]}
    if meta["e_tag"] is not None:
        headers[b"etag"] = meta["e_tag"].encode("latin-1")
    verdict = judge(want, 200, headers)
    if isinstance(verdict, AiozarrError):
        raise verdict
    return Answer(200, headers, verdict, b"")


def _options(want: Want) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if want.etag is not None and not want.etag.startswith("W/"):
        options["if_match"] = want.etag
    if want.range is not None:
        options["range"] = _range(want.range)
    return options


def _range(byte_range: ByteRange) -> Any:
    assert isinstance(byte_range, Range)
    if byte_range.length is None:
        return {"offset": byte_range.start}
    return (byte_range.start, byte_range.start + byte_range.length)


def _refusal(error: BaseException) -> Answer | None:
    """Return the answer that `error` tells of in its words; None: it tells of none."""
    text = str(error)
    match = _STATUS.search(text)
    if match is None or any(words in text for words in NO_TOKEN):
        return None
    body = text[match.end() :].encode()[:NOTE_BYTES]
    code = error_code(body)
    headers: Headers = {} if code is None else {b"x-ms-error-code": code.encode()}
    return Answer(int(match[1]), headers, NOTE, body)
