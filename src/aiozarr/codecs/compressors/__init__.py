"""Bytes -> bytes codecs: compression and checksums."""
