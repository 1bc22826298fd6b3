"""connect and accept."""
