"""The codecs of the package numcodecs, with the same names, parameters and bytes."""
