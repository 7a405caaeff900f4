"""Stores that wrap another store, one behaviour each. They can be nested in any order."""
