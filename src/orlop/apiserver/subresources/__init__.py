"""One file a subresource: what lies behind `<resource>/<name>/<subresource>`.

Called by the dispatcher and by the in-process client, after authorization. `status` has no file:
it is an update that the kind's strategy confines to the status.
"""
