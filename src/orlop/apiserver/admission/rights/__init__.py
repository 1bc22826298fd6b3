"""What nobody may give themselves by writing an object."""
