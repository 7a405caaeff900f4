"""The client of buckets of Google Cloud Storage."""
