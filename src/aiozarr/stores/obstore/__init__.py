"""What the services share that list, sign and write by the package obstore."""
