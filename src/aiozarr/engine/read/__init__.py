"""A read, from the chunks that it touches to the elements that have landed."""
