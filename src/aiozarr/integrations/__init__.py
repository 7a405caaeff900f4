"""Integrations of aiozarr with other libraries, all of them optional."""
