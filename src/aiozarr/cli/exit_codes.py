"""The exit status of an error: rclone's numbers, and those of shells for signals."""

from __future__ import annotations

from aiozarr.errors import (
    AiozarrError,
    CopyError,
    EraseError,
    NodeNotFoundError,
    PermissionDeniedError,
    StoreError,
    UnauthenticatedError,
    UnknownSchemeError,
)

OK = 0
ERROR = 1
"""An error without a number of its own, and a check that has found differences or bad objects."""
USAGE = 2
"""The command line is wrong: an unknown option, a missing argument, an invalid value."""
NODE_NOT_FOUND = 3
"""There is no array, no group and nothing else below the target, or its bucket does not exist."""
OBJECT_NOT_FOUND = 4
"""There is no object of this key."""
TEMPORARY = 5
"""A temporary error remained after all retries: the same command may succeed later."""
PARTIAL = 6
"""Some objects failed, and all others were done (`--on-error continue`)."""
FATAL = 7
"""Repeating does not help: the credentials are wrong, or do not allow it."""
INTERRUPTED = 130
"""Ctrl-C. `--resume` continues the copy or conversion."""
BROKEN_PIPE = 141
"""The reader of standard output has closed it, as `| head` does."""
HANGUP = 129
"""SIGHUP, as when the terminal is closed: as Ctrl-C, and then the process ends by the signal."""
TERMINATED = 143
"""SIGTERM: as Ctrl-C."""


class Terminated(KeyboardInterrupt):
    """The process was asked to end by SIGTERM or SIGHUP: as Ctrl-C, with another exit status."""

    status = TERMINATED


def exit_code_of(error: BaseException) -> int:
    """Return the exit status of a command that ends with `error`."""
    seen: list[BaseException] = [error]
    for each in seen:
        if isinstance(each, UnauthenticatedError | PermissionDeniedError | PermissionError):
            return FATAL
        if isinstance(each, NodeNotFoundError):
            return NODE_NOT_FOUND
        if isinstance(each, StoreError) and each.status == 404:
            return NODE_NOT_FOUND  # a missing object is no error of the store: the bucket does not exist
        if isinstance(each, FileNotFoundError):
            return OBJECT_NOT_FOUND
        if isinstance(each, StoreError) and each.retryable:
            return TEMPORARY
        if isinstance(each, CopyError):
            # An error about many objects is as bad as that of the first of them.
            seen += [of_key for _, of_key in each.failed[:1]] or ([each.__cause__] if each.__cause__ else [])
        elif isinstance(each, EraseError):
            seen += list(each.failures.values())[:1]
    is_typed = isinstance(error, AiozarrError) and not isinstance(error, UnknownSchemeError)
    if isinstance(error, TypeError | ValueError) and not is_typed:
        return USAGE
    return ERROR
