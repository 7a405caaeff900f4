"""xarray's engine `aiozarr`, awaited functions that open data sets, and the accessor `ds.aiozarr`.

```python
ds = xarray.open_dataset("s3://bucket/data.zarr", engine="aiozarr")
ds = await aiozarr.integrations.xarray.open_dataset("s3://bucket/data.zarr")
await ds.aiozarr.load_async()
```
"""

from aiozarr.integrations.xarray.backend import AiozarrBackendEntrypoint
from aiozarr.integrations.xarray.functions import DatasetAccessor, LoadPlan, open_dataset, open_datatree, open_many

__all__ = ["AiozarrBackendEntrypoint", "DatasetAccessor", "LoadPlan", "open_dataset", "open_datatree", "open_many"]


def __dir__() -> list[str]:
    return sorted(__all__)
