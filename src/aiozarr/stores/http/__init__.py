"""The store behind a web server: reads go down the lane, and whatever that cannot follow takes a detour."""
