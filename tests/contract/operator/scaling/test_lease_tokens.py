"""A lease with tokens is asked for over real HTTP, of programs that repeat what they are sent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from headrace.core.delivery.bearer import Bearer
from headrace.core.delivery.lease import Lease
from headrace.core.errors import HeadraceError
from headrace_operator.scaling.lease_client import LeaseClient

SECRET = "head.claims.c2VjcmV0"
LEASE = Lease("S", "C", seconds=0.1, tokens={"billing": Bearer(SECRET)})
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def echo(status: int) -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        body = await request.text()
        assert SECRET in body
        return web.Response(status=status, text=body)

    return answer


async def problem(request: web.Request) -> web.StreamResponse:
    return web.json_response({"title": "No", "status": 409, "detail": await request.text()}, status=409)


async def late_problem(request: web.Request) -> web.StreamResponse:
    return web.json_response({"title": "No", "status": 503, "detail": await request.text()})


async def first(request: web.Request) -> web.StreamResponse:
    return web.Response(text=SECRET + await request.text())


@pytest.mark.parametrize("answer", [echo(200), echo(401), echo(500), problem, late_problem, first])
async def test_a_program_at_forwards_address_that_repeats_its_request_puts_no_token_into_words(answer: Answer) -> None:
    app = web.Application()
    app.router.add_post("/", answer)
    async with TestServer(app) as server, LeaseClient("shared") as client:
        with pytest.raises(HeadraceError) as failed:
            await client.open(str(server.make_url("/")), LEASE)
    assert SECRET not in str(failed.value)
    assert SECRET not in repr(failed.value.__cause__)
