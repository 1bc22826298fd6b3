"""The filters of a request, one signature for all; the handler lists them in their order."""
