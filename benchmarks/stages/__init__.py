"""What each stage of a read costs by itself, and its share of a whole read."""
