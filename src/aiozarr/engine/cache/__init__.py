"""What is kept from one read to the next: decoded chunks, shard indexes, sizes."""
