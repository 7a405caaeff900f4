"""The way to a bucket of S3, or of what speaks its protocol: addresses, signatures, the client, errors and probes."""
