"""Who makes it: one file a controller, all of one shape, run by the manager."""
