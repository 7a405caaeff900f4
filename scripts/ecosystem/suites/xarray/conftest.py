"""The fixtures of xarray's tests, which pytest does not find beside imported classes."""

from xarray.tests.conftest import *  # noqa: F403  # all fixtures, whatever their names
from xarray.tests.test_backends import default_zarr_format, tmp_store  # noqa: F401
from xarray.tests.test_backends_datatree import unaligned_datatree_zarr_factory  # noqa: F401
