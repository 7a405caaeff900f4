"""What all packages use and what knows nothing of Zarr: concurrency, forks, text for people, checks of members."""
