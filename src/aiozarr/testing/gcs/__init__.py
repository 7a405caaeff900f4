"""The parts of the Google Cloud Storage fake: what it holds, and the two APIs that speak of it."""
