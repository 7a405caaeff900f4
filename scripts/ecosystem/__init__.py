"""Test suites of other projects, run unchanged over aiozarr: `make test-ecosystem`."""
