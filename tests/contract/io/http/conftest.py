"""Every test of the HTTP client runs on both event loops: the client leans on details of their transports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import uvloop

from headrace.io.http import HttpClient
from tests.support.http.http_clients import Client, opened
from tests.support.http.sink_client import SinkClient


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.SelectorEventLoop, "uvloop": uvloop.new_event_loop}


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """Our client."""
    async with opened(HttpClient) as client:
        yield client


@pytest.fixture(params=[HttpClient, SinkClient], ids=["ours", "aiohttp"])
async def either(request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    """Our client, and the one on aiohttp whose place it takes."""
    async with opened(request.param) as client:
        yield client
