"""The codecs of the package numcodecs, of the same names and parameters, and the same bytes."""
