"""Array -> array codecs that change dimensions: order and shape."""
