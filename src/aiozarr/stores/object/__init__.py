"""Stores in the buckets of a cloud: one store, and one service for each cloud."""
