"""How many requests the benchmark's server has answered: both kinds of server say it in nginx's words."""

from __future__ import annotations

import re
from urllib.request import ProxyHandler, build_opener

STATUS = "/-/status"
_NUMBERS = re.compile(r"^\s*\d+ \d+ (\d+)\s*$", re.MULTILINE)


def requests_of(url: str) -> int:
    """Return how many requests there were, this one included.

    Raises:
        OSError: the server does not answer.
    """
    with build_opener(ProxyHandler({})).open(f"{url}{STATUS}", timeout=60) as answer:
        found = _NUMBERS.search(answer.read().decode())
    if found is None:
        raise OSError("the server does not say how many requests there were")
    return int(found[1])
