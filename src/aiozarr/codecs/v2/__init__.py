"""The codec of what format 2 has and format 3 has not: filters, structures and objects, named as in v2 documents."""
