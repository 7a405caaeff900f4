"""Mutations of the hierarchy: creates, updates, moves and erases nodes, and keeps consolidated metadata current."""
