"""The codec of what format 2 has and format 3 has not: filters, structures and objects, as documents of v2 name them."""
