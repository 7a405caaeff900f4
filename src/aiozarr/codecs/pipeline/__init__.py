"""A chain of codecs resolved for arrays of one shape and type."""
