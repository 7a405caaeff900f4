"""Objects in buckets: one store for all clouds, and what their clients share."""
