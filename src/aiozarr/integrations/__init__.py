"""Ways between aiozarr and other libraries: each optional, each in one module."""
