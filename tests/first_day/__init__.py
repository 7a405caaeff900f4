"""What a new user types: programs from memory of other libraries, and provoked mistakes with the text of the errors."""
