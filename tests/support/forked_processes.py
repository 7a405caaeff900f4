"""An interpreter that forks processes which use aiozarr: none of them imports numpy, and each can be killed."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.child_process import repository_path

FAILED = 255
"""The exit status of a forked process whose work has raised an error."""


class ForkingInterpreter:
    """The pipe to the interpreter: it is sent tasks, and answers each of them."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, **task: Any) -> Any:
        """Return the answer to a task."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(task) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@contextmanager
def forking_interpreter(module: str) -> Iterator[ForkingInterpreter]:
    """Run a module that calls `serve`. It ends with its standard input."""
    # Threads of a mathematical library would be missing in a forked process.
    environment = {**os.environ, "PYTHONPATH": repository_path(), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", module]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        yield ForkingInterpreter(process)
        process.communicate()


# --- in the interpreter that forks ---------------------------------------------------------------------------------


def serve(answer: Callable[[dict[str, Any]], Any]) -> None:
    """Answer the tasks of standard input. A forked process finds all modules of aiozarr imported, and no thread."""
    # aiozarr imports most of its modules on first use: each process would do it again.
    for package in ("engine", "hierarchy", "transfer", "conversion", "codecs", "stores.local", "stores.s3", "http1"):
        parent = importlib.import_module(f"aiozarr.{package}")
        for module in pkgutil.walk_packages(parent.__path__, f"{parent.__name__}."):
            importlib.import_module(module.name)
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(json.loads(line))) + "\n")
        sys.stdout.flush()


def fork(work: Callable[[], int]) -> int:
    """Return the process that does the work, and exits with the status that it returns."""
    child = os.fork()
    if child == 0:
        try:
            status = work()
        except BaseException:
            traceback.print_exc()
            status = FAILED
        os._exit(status)
    return child
