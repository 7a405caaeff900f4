"""Decisions about requests: pure functions that a read, a plan and a probe share."""
