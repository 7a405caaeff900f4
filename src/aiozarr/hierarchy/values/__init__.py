"""Values that are written, as arrays of the type that they are written to."""
