"""What tests of stores and of code above stores need: a conformance suite, fakes, faults, virtual time and a server.

Nothing is imported here: `conformance` needs pytest, `strategies` needs hypothesis, and the others need neither.
"""
