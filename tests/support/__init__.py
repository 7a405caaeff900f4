"""Helpers of the tests, and of scripts: servers, sample arrays, data strategies, and checks for leaks."""
