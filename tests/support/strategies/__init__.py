"""Hypothesis strategies that draw data types, elements, codecs and arrays of every format."""
