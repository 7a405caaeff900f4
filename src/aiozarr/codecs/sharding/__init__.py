"""The codec `sharding_indexed`: shards of inner chunks with an index."""
