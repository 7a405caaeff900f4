from __future__ import annotations

from pathlib import Path

import numpy as np

import aiozarr
from aiozarr.integrations.xarray.data_store import GroupDataStore
from aiozarr.integrations.xarray.group_contents import OpenOptions, fetch_groups


async def test_attributes_of_the_formats_are_hidden_in_format_2(tmp_path: Path) -> None:
    group = await aiozarr.create_group(tmp_path, zarr_format=2, attributes={"title": "t", "_NCProperties": "x"})
    await group.create_array(
        "v", data=np.arange(3), attributes={"_ARRAY_DIMENSIONS": ["x"], "_nczarr_x": 1, "units": "m"}, fill_value=9
    )
    opened = await fetch_groups(tmp_path, OpenOptions(), deep=False)
    store = GroupDataStore(opened.groups[0], None, is_root=False)
    assert store.get_attrs() == {"title": "t"}
    variable = store.get_variables()["v"]
    assert variable.dims == ("x",)
    assert variable.attrs == {"units": "m", "_FillValue": 9}
    assert store.get_dimensions() == {"x": 3}


async def test_a_fill_value_that_is_not_stored_masks_nothing(tmp_path: Path) -> None:
    group = await aiozarr.create_group(tmp_path, zarr_format=2)
    array = await group.create_array("v", data=np.arange(3), attributes={"_ARRAY_DIMENSIONS": ["x"]})
    assert not array.metadata.has_fill_value
    opened = await fetch_groups(tmp_path, OpenOptions(), deep=False)
    variable = GroupDataStore(opened.groups[0], True, is_root=False).get_variables()["v"]
    assert "_FillValue" not in variable.attrs
