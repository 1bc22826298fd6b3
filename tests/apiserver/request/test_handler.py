"""The list of filters: what comes before what, and that each decides whether it goes on."""

from __future__ import annotations

import pytest

from orlop.apiserver.request.context import Filter, chain
from orlop.apiserver.request.filters import audit
from orlop.apiserver.request.filters.authentication import authenticate
from orlop.apiserver.request.filters.authorization import authorize
from orlop.apiserver.request.filters.impersonation import impersonate
from orlop.apiserver.request.filters.serving import (
    dispatch,
    serve_by_extension_server,
    serve_nonresource,
)
from orlop.apiserver.request.filters.turns import receive_body, take_seat
from orlop.apiserver.request.handler import FILTERS
from orlop.errors import NotFound


@pytest.mark.parametrize("serves", [serve_by_extension_server, serve_nonresource, dispatch])
def test_who_asks_is_known_and_may_before_anything_is_served(serves: Filter) -> None:
    steps = (authenticate, audit.request_received, impersonate, take_seat, authorize, serves)
    order = [FILTERS.index(step) for step in steps]
    assert order == sorted(order)


def test_nothing_of_a_strangers_is_read() -> None:
    assert FILTERS.index(authenticate) < FILTERS.index(receive_body)


def test_no_filter_is_there_twice() -> None:
    assert len(set(FILTERS)) == len(FILTERS)


async def test_a_request_goes_through_filters_from_the_first_to_the_last() -> None:
    seen: list[str] = []

    def noting(name: str) -> Filter:
        async def note(context, go_on):
            seen.append(name)
            response = await go_on(context)
            seen.append(f"{name} again")
            return response

        return note

    async def last(context, go_on):
        return context

    assert await chain([noting("a"), noting("b"), last])("answer") == "answer"
    assert seen == ["a", "b", "b again", "a again"]


async def test_what_no_filter_answers_is_not_found() -> None:
    with pytest.raises(NotFound):
        await chain([])("anything")
