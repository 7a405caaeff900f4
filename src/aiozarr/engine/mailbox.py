"""Calls of functions on an event loop from other threads, with one wake-up of the loop per burst."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from weakref import WeakKeyDictionary, ref


class Mailbox:
    """A queue of functions to call on a loop. Any thread may post; one wake-up of the loop serves a burst."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # Weak: the table of mailboxes must not keep a dropped loop alive.
        self._loop = ref(loop)
        self._callbacks: deque[Callable[[], None]] = deque()
        self._woken = False

    def post(self, function: Callable[[], None]) -> bool:
        """Call `function` on the loop.

        Returns: False if the loop is closed.
        """
        # The callback goes in before the flag is read, and the flag is cleared before callbacks are taken out. So a
        # wake-up that has not run yet serves every caller that finds the flag set.
        self._callbacks.append(function)
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
                # Ctrl-C between the flag and the wake-up: callers that found the flag set rely on it.
                loop.call_soon_threadsafe(self._empty)
                raise
        return True

    def _empty(self) -> None:
        self._woken = False
        callbacks = self._callbacks
        while callbacks:
            try:
                callbacks.popleft()()
            except Exception as error:
                # An exception of one caller's callback must not stop those of others.
                report_error(error)


_mailboxes: WeakKeyDictionary[asyncio.AbstractEventLoop, Mailbox] = WeakKeyDictionary()


def mailbox_of(loop: asyncio.AbstractEventLoop) -> Mailbox:
    """Return the one mailbox of `loop`."""
    mailbox = _mailboxes.get(loop)
    if mailbox is None:
        mailbox = _mailboxes[loop] = Mailbox(loop)
    return mailbox


def forget_mailboxes() -> None:
    """Forget all loops: after a fork they are those of the parent."""
    _mailboxes.clear()


def report_error(error: Exception) -> None:
    """Report an exception of a callback to the running loop."""
    asyncio.get_running_loop().call_exception_handler({"message": "a callback of aiozarr raised", "exception": error})
