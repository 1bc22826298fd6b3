"""Counts calls of webhooks, under upstream's names.

Called by the dispatch after each call. As apiserver/pkg/admission/metrics/metrics.go.
"""

from __future__ import annotations

from ....errors import ApiError
from ....metrics import PROCESS

_BUCKETS = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0)
_LABELS = ("name", "type", "operation", "rejected")
_duration = PROCESS.histogram(
    "apiserver_admission_webhook_admission_duration_seconds",
    "Admission webhook latency histogram in seconds, identified by name and broken out for each "
    "operation and API resource and type (validate or admit).",
    *_LABELS,
    buckets=_BUCKETS,
)
_total = PROCESS.counter(
    "apiserver_admission_webhook_request_total",
    "Admission webhook request total, identified by name and broken out for each admission type "
    "(validating or mutating) and operation.",
    "name", "type", "operation", "code", "rejected",
)  # fmt: skip
_rejections = PROCESS.counter(
    "apiserver_admission_webhook_rejection_count",
    "Admission webhook rejection count, identified by name and broken out for each admission type "
    "(validating or admit) and operation.",
    "name", "type", "operation", "error_type", "rejection_code",
)  # fmt: skip
_open = PROCESS.counter(
    "apiserver_admission_webhook_fail_open_count",
    "Admission webhook fail open count, identified by name and broken out for each admission type "
    "(validating or admit).",
    "name",
    "type",
)


def called(name: str, kind: str, operation: str, seconds: float, refused: ApiError | None) -> None:
    """Count that a webhook has answered, and perhaps refused."""
    rejected = "true" if refused is not None else "false"
    code = str(refused.status_code) if refused is not None else "200"
    _duration.observe(seconds, name, kind, operation, rejected)
    _total.add(name, kind, operation, code, rejected)
    if refused is not None:
        _rejections.add(name, kind, operation, "no_error", code)


def failed(name: str, kind: str, operation: str, *, is_open: bool) -> None:
    """Count that a webhook has given no answer that can be used."""
    if is_open:
        _open.add(name, kind)
    else:
        _rejections.add(name, kind, operation, "calling_webhook_error", "0")
