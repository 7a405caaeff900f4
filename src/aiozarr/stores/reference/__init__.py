"""Virtual references: keys whose bytes are ranges of other objects."""
