"""Webhooks: programs of users that are asked about requests, and may change or refuse objects.

`configuration` reads who is to be asked, `review` writes the question and reads the answer,
`mutating` and `validating` are the plugins that ask.
"""

from .mutating import MutatingWebhooks
from .validating import ValidatingWebhooks

__all__ = ["MutatingWebhooks", "ValidatingWebhooks"]
