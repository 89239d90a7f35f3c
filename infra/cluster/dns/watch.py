"""A copy of one kind of objects, kept true by listing them once and watching from there."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import MutableMapping

import aiohttp

from infra.cluster.dns.zone import Key, Object

_AGAIN_SECONDS = 0.5
# The server ends a watch by itself after some minutes; what is silent for longer is dead.
_SILENT_SECONDS = 120
_WATCH_SECONDS = 90


class _Expired(Exception):
    """The server no longer knows the version from which it should go on."""


async def keep(session: aiohttp.ClientSession, path: str, into: MutableMapping[Key, Object]) -> None:
    """Keep `into` what the API server has under that path. Never returns."""
    while True:
        try:
            version = await _list(session, path, into)
            while True:
                version = await _watch(session, path, version, into)
        except (aiohttp.ClientError, TimeoutError, _Expired, json.JSONDecodeError) as problem:
            print(f"{path}: {problem!r}", file=sys.stderr, flush=True)
            await asyncio.sleep(_AGAIN_SECONDS)


async def _list(session: aiohttp.ClientSession, path: str, into: MutableMapping[Key, Object]) -> str:
    async with session.get(path) as answer:
        answer.raise_for_status()
        whole = await answer.json()
    found = {_key(each): each for each in whole["items"]}
    # Not empty for a moment: others read it meanwhile.
    for gone in into.keys() - found.keys():
        del into[gone]
    into.update(found)
    return str(whole["metadata"]["resourceVersion"])


async def _watch(session: aiohttp.ClientSession, path: str, version: str, into: MutableMapping[Key, Object]) -> str:
    query = {
        "watch": "1",
        "allowWatchBookmarks": "1",
        "timeoutSeconds": str(_WATCH_SECONDS),
        "resourceVersion": version,
    }
    silent = aiohttp.ClientTimeout(total=None, sock_read=_SILENT_SECONDS)
    async with session.get(path, params=query, timeout=silent) as answer:
        answer.raise_for_status()
        async for line in answer.content:
            event = json.loads(line)
            if event["type"] == "ERROR":
                raise _Expired(event["object"].get("message", ""))
            version = _taken(event, into)
    return version


def _taken(event: Object, into: MutableMapping[Key, Object]) -> str:
    each = event["object"]
    if event["type"] == "DELETED":
        into.pop(_key(each), None)
    elif event["type"] != "BOOKMARK":
        into[_key(each)] = each
    return str(each["metadata"]["resourceVersion"])


def _key(each: Object) -> Key:
    return each["metadata"]["namespace"], each["metadata"]["name"]
