"""`storage_options` of every kind of store, translated by tables: one module a cloud."""
