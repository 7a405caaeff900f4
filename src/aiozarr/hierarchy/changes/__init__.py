"""Nodes made, changed, moved and erased: what is looked at before, who has their turn, and what is kept true."""
