"""Requests on their way: what they carry, who waits for it, what is shared, and what is noted of them."""
