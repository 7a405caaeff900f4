"""The blocking names work in any thread, and run user code in the calling thread."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

import numpy as np

from aiozarr import sync
from aiozarr.stores import MemoryStore


def stored(chunks: int = 2) -> sync.Array:
    array = sync.create_array(MemoryStore(), shape=20, dtype="i4", chunks=chunks)
    array[...] = np.arange(20)
    return array


def test_a_record_counts_opening_streaming_and_writing() -> None:
    array = stored()
    with sync.record() as report:
        sync.open_array(array.store, zarr_format=3)
    assert report.requests == 1
    with sync.record() as report:
        list(array.view[:6].stream())
    assert report.requests == 3
    with sync.record() as report:
        array[:4] = 1
    assert report.requests == 2


def test_values_are_cast_in_the_calling_thread_and_may_call_back() -> None:
    array, threads = stored(), set()

    class Lazy:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            threads.add(threading.get_ident())
            # On the I/O thread this would wait for itself.
            return array[...] * 2

    array[...] = Lazy()  # type: ignore[assignment]
    assert array[...].tolist() == list(range(0, 40, 2))
    array.append(Lazy())  # type: ignore[arg-type]
    assert len(array) == 40
    assert threads == {threading.get_ident()}


def test_importing_takes_no_client_library() -> None:
    heavy = "{'obstore', 'aiohttp', 'typer', 'zarr', 'fsspec', 'botocore'}"
    code = f"import sys, aiozarr, aiozarr.sync; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
