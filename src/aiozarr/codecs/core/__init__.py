"""The contract of codecs: kinds, chains, configurations, and the registry of names."""
