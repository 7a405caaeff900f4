"""The way to a bucket of Google Cloud Storage: addresses, tokens, the lane that reads, and uploads that resume."""
