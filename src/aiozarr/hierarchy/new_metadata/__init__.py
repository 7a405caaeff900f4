"""The metadata of new nodes, from the keywords of `create_array` and `create_group`."""
