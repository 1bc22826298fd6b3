"""Removes what is not needed any more: orphans, ended pods, old events and leases."""
