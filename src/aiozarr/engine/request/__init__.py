"""Requests for stored objects: chunks in flight, batches, merged ranges, shard indexes, large objects in parts."""
