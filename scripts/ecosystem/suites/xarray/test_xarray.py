"""xarray's own tests of Zarr, by the engine or the codec pipeline that the environment sets up."""

from xarray.tests.test_backends import (  # noqa: F401
    TestDataArrayToZarr,
    TestZarrDictStore,
    TestZarrDirectoryStore,
    TestZarrRectilinearChunksRead,
    TestZarrRegionAuto,
    TestZarrWriteEmpty,
)
from xarray.tests.test_backends_datatree import TestZarrDatatreeIO  # noqa: F401
