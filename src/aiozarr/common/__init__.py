"""Helpers of all packages that know nothing of Zarr: concurrency, forks, text for people, checks of members."""
