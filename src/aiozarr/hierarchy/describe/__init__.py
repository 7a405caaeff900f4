"""The metadata of new nodes, out of the keywords that say what is wanted."""
