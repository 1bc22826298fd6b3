"""One file a verb: what each does to any kind, over HTTP and in process alike.

Called by the dispatcher and by the in-process client, after authorization. Objects come in decoded
and go out as store records; nothing here knows HTTP.
"""
