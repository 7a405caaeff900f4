"""The parts of the Google Cloud Storage fake: its objects, and its two APIs."""
