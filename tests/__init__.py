"""The tests of aiozarr; a package, so that tests and scripts import `tests.support` by its full name."""
