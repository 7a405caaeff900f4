"""The exit status of an error: rclone's numbers, and for signals the numbers of shells."""

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
"""Any other error, or `diff`, `verify` or `validate` found something."""
USAGE = 2
"""The command line is wrong: an unknown option, a missing argument, an invalid value."""
NODE_NOT_FOUND = 3
"""Nothing is stored at the target, or its bucket does not exist."""
OBJECT_NOT_FOUND = 4
"""There is no object with this key."""
TEMPORARY = 5
"""A temporary error remained after all retries: the same command may succeed later."""
PARTIAL = 6
"""Some objects failed, and the others were copied or converted (`--on-error continue`)."""
FATAL = 7
"""The credentials are wrong, or do not allow it. Repeating the command does not help."""
HANGUP = 129
"""SIGHUP: the terminal was closed. `--resume` continues the copy or conversion."""
INTERRUPTED = 130
"""Ctrl-C. `--resume` continues the copy or conversion."""
BROKEN_PIPE = 141
"""The reader of standard output closed it, as `| head` does."""
TERMINATED = 143
"""SIGTERM. `--resume` continues the copy or conversion."""


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP ends the process. It is handled like Ctrl-C, with another exit status."""

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
            return NODE_NOT_FOUND  # stores raise it only if the bucket does not exist
        if isinstance(each, FileNotFoundError):
            return OBJECT_NOT_FOUND
        if isinstance(each, StoreError) and each.retryable:
            return TEMPORARY
        if isinstance(each, CopyError):
            # An error about many objects has the status of the first of them.
            seen += [of_key for _, of_key in each.failed[:1]] or ([each.__cause__] if each.__cause__ else [])
        elif isinstance(each, EraseError):
            seen += list(each.failures.values())[:1]
    is_typed = isinstance(error, AiozarrError) and not isinstance(error, UnknownSchemeError)
    if isinstance(error, TypeError | ValueError) and not is_typed:
        return USAGE
    return ERROR
