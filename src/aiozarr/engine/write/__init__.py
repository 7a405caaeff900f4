"""A write, from elements to objects that are stored."""
