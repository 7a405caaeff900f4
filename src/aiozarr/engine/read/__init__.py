"""Reads: coroutines per stored object, and the operation that they belong to."""
