"""The store in a file system of fsspec, whatever its protocol."""
