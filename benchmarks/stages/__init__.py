"""The cost of each stage of a read alone, and its share of a whole read."""
