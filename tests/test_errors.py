from __future__ import annotations

import inspect

import pytest

from orlop import errors


def api_errors() -> list[type[errors.ApiError]]:
    classes = [cls for _, cls in inspect.getmembers(errors, inspect.isclass)]
    return [
        cls for cls in classes if issubclass(cls, errors.ApiError) and cls is not errors.ApiError
    ]


@pytest.mark.parametrize("cls", api_errors(), ids=lambda cls: cls.__name__)
def test_an_api_error_survives_the_wire(cls):
    sent = cls('pods "a" is strange', details={"name": "a", "kind": "pods"})
    received = errors.from_status(sent.status())
    assert type(received) is cls
    assert received.status() == sent.status()


def test_the_body_is_a_status_in_upstreams_shape():
    status = errors.NotFound('pods "a" not found', details={"name": "a"}).status()
    assert status == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'pods "a" not found',
        "reason": "NotFound",
        "details": {"name": "a"},
        "code": 404,
    }


def test_a_reason_we_do_not_know_keeps_its_words_and_code():
    error = errors.from_status({"reason": "Teapot", "code": 418, "message": "short and stout"})
    assert type(error) is errors.ApiError
    assert (error.status_code, error.status_reason, str(error)) == (
        418,
        "Teapot",
        "short and stout",
    )


def test_every_class_is_drawn_in_the_tree():
    classes = [cls for _, cls in inspect.getmembers(errors, inspect.isclass)]
    ours = [cls for cls in classes if issubclass(cls, errors.Error)]
    assert all(cls.__name__ in (errors.__doc__ or "") for cls in ours)
