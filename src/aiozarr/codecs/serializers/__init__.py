"""Array -> bytes codecs."""
