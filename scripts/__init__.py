"""Programs of the repository: demos, data, environments and lanes of tests."""
