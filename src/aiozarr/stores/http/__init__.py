"""Reading by HTTP GET: the store of a plain web server, and the part that the stores of clouds share with it."""
