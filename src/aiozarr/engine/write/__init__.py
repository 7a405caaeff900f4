"""Writes, from array elements to stored objects."""
