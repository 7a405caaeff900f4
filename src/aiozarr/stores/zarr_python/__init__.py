"""Stores of zarr-python: read as they are, or as the store of aiozarr that reaches the same objects."""
