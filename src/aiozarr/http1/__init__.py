"""An HTTP/1.1 client for ranges of objects: keep-alive connections, bodies received in place, no task per request."""
