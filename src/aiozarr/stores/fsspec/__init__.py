"""The store in a file system of fsspec, with any protocol."""
