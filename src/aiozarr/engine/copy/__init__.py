"""Copies of single objects: one route for each, from one store to another, as the bytes are stored."""
