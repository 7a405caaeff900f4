"""Objects in buckets: one store for all clouds, and the common base of their clients."""
