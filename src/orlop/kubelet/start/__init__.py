"""Starts a bound pod: waits for what it depends on, prepares it, asks the engine for its job."""
