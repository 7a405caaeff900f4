"""Fuzz targets: mutated documents, bytes, responses and names, behind a watchdog. `make fuzz` runs them."""
