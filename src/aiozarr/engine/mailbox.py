"""How other threads have functions called on an event loop: in bursts, one wake-up for all that have gathered."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from weakref import WeakKeyDictionary, ref


class Mailbox:
    """Functions to call on a loop, from any thread: one wake-up of the loop for all that have gathered."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # Weak: the table of mailboxes must not keep a loop alive that its owner has dropped.
        self._loop = ref(loop)
        self._letters: deque[Callable[[], None]] = deque()
        self._woken = False

    def post(self, function: Callable[[], None]) -> bool:
        """Have `function` called on the loop; return False where the loop is closed."""
        # The letter goes in before the flag is read, and the flag is cleared before letters are taken out: whoever
        # finds the flag set is served by the wake-up that is under way.
        self._letters.append(function)
        if not self._woken:
            loop = self._loop()
            if loop is None:
                return False
            try:
                self._woken = True
                loop.call_soon_threadsafe(self._empty)
            except RuntimeError:
                return False
            except BaseException:
                # Ctrl-C between the flag and the wake-up: whoever found the flag set relies on it.
                loop.call_soon_threadsafe(self._empty)
                raise
        return True

    def _empty(self) -> None:
        self._woken = False
        letters = self._letters
        while letters:
            try:
                letters.popleft()()
            except Exception as error:
                # A caller's callback: its mistake must not keep the other letters from their readers.
                report_error(error)


_mailboxes: WeakKeyDictionary[asyncio.AbstractEventLoop, Mailbox] = WeakKeyDictionary()


def mailbox_of(loop: asyncio.AbstractEventLoop) -> Mailbox:
    """Return the one mailbox of `loop`."""
    mailbox = _mailboxes.get(loop)
    if mailbox is None:
        mailbox = _mailboxes[loop] = Mailbox(loop)
    return mailbox


def forget_mailboxes() -> None:
    """After a fork the loops are the parent's."""
    _mailboxes.clear()


def report_error(error: Exception) -> None:
    """Tell the running loop of a callback's mistake that must not end what called it."""
    asyncio.get_running_loop().call_exception_handler({"message": "a callback of aiozarr raised", "exception": error})
