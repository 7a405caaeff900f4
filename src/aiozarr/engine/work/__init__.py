"""What the worker threads are and do: decoding, encoding, and the memory that it goes through."""
