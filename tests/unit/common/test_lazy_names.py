"""Names of packages that are imported on first use: which there are, and that importing a submodule hides none."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

import pytest

import aiozarr
from aiozarr.common.lazy_names import lazy_names

LAZY = [
    importlib.import_module(name)
    for name in (
        "aiozarr",
        *(module.name for module in pkgutil.walk_packages(aiozarr.__path__, "aiozarr.") if module.ispkg),
    )
    if not name.startswith(("aiozarr.testing", "aiozarr.integrations"))
]
LAZY = [package for package in LAZY if "__getattr__" in vars(package)]


def test_there_are_lazy_packages() -> None:
    assert {aiozarr, aiozarr.stores, aiozarr.sync} <= set(LAZY)


@pytest.mark.parametrize("package", LAZY, ids=lambda package: package.__name__)
def test_every_name_is_there_and_none_is_that_of_a_submodule(package: ModuleType) -> None:
    for name in package.__all__:
        assert getattr(package, name) is not None
    assert dir(package) == sorted(package.__all__)
    submodules = {module.name for module in pkgutil.iter_modules(package.__path__)}
    hidden = {name for name in submodules & set(package.__all__) if not isinstance(getattr(package, name), ModuleType)}
    assert not hidden, "importing the submodule would replace the name"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'aiozarr\.stores' has no attribute 'S3Store'"):
        aiozarr.stores.S3Store  # type: ignore[attr-defined]  # noqa: B018
    assert not hasattr(aiozarr, "Engine")


def test_names_are_found_in_modules_relative_to_the_package_and_elsewhere() -> None:
    get_name, _ = lazy_names("aiozarr.stores", {".contract": "Store", "aiozarr.model": "Range Suffix", ".zip": ""})
    assert get_name("Store").__name__ == "Store"
    assert get_name("Suffix").__module__ == "aiozarr.model"
    assert get_name("zip").__name__ == "aiozarr.stores.zip"
    with pytest.raises(AttributeError):
        get_name("zipped")
