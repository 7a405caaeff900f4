"""The store of a directory: values are files, written whole or not at all."""
