"""Stores in buckets: one store for all clouds, and the interface of their bucket clients."""
