"""Imports the names of a package when they are first used, so that a program loads only the modules that it needs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package whose names are imported on first use.

    The package imports the same names under `TYPE_CHECKING`, and calls this function otherwise, because a type checker
    that saw `__getattr__` would accept every name.

    Args:
        package: the `__name__` of the package.
        homes: the names of each module, separated by spaces. A module is relative to the package (`".array"`) or
            absolute. One without names is itself a name of the package. No other name may be that of a submodule:
            importing the submodule would replace it.
    """
    modules = {name: module for module, names in homes.items() for name in names.split()}
    modules |= {module.rpartition(".")[2]: "" for module, names in homes.items() if not names}

    def get_name(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if not modules[name]:
            return import_module(f"{package}.{name}")
        value = getattr(import_module(modules[name], package), name)
        setattr(sys.modules[package], name, value)
        return value

    return get_name, lambda: sorted(sys.modules[package].__all__)
