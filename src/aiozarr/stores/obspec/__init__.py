"""The store over any object with obspec's methods, and the recognition of obstore's own stores."""
