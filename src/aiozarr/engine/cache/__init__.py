"""Caches of decoded chunks, of shard indexes, and of sizes of objects."""
