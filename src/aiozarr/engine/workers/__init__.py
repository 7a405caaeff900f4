"""The worker threads and their work: decoding, encoding, and prefaulting of outputs."""
