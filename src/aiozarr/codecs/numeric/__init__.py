"""Array -> array codecs that change values: scaling, casting, rounding."""
