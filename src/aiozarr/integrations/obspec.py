"""`from_obspec`: a store over an object with obspec's methods, such as an obstore store.

Every function that opens, creates or copies accepts such an object as a target, too. For the other direction, obstore
reads the same buckets itself.
"""

from aiozarr.stores.obspec_store import from_obspec

__all__ = ["from_obspec"]
