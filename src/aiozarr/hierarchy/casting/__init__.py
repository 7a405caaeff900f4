"""Casts values to the data type of the array that they are written to."""
