"""Stores whose libraries are slow to import are imported when they are first used."""

from __future__ import annotations

import subprocess
import sys


def test_the_clients_of_other_stores_are_not_imported_before_they_are_used() -> None:
    program = (
        "import sys; from aiozarr.stores import from_url; from_url('memory://x'); from_url('/tmp/x'); "
        "print(sorted({'aiohttp', 'obstore'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "[]"
