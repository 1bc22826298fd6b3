"""Answers connect and accept."""
