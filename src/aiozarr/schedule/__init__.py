"""When each request is sent: coalescing, one budget per origin, retries, and the report of their cost."""
