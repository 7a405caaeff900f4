"""What a read will ask for, decided and foretold: pure functions that a read, a plan and a probe ask alike."""
