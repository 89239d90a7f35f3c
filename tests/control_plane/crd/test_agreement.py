"""The API server and `reconcile` accept the same channels: neither lets through what the other refuses."""

from __future__ import annotations

import asyncio
import json
from random import Random
from typing import Any

import pytest

from headrace.core.channel import stream_config
from headrace.core.errors import InvalidSpec
from headrace.core.manifest import manifest
from tests.control_plane import spec_generator
from tests.control_plane.channel_manifests import channel
from tests.support.kube.kube_api import CHANNELS, Answer, Api

DRAWS = 600
# What an API server answers that has too much to do.
BUSY = (429, 503, 504)


def refusal(spec: dict[str, Any]) -> str:
    """Why `reconcile` refuses it; empty when it does not."""
    try:
        stream_config.wanted(manifest.parse(channel(spec=spec, namespace="shop")), "test")
    except InvalidSpec as error:
        return str(error)
    return ""


async def disagreements(api: Api, namespace: str, specs: list[dict[str, Any]]) -> list[str]:
    path = CHANNELS.format(namespace=namespace)

    async def asked(spec: dict[str, Any]) -> Answer:
        for _ in range(100):
            answer = await api.create(path, channel(spec=spec), strict=True, dry=True)
            if answer.status not in BUSY:
                break
            await asyncio.sleep(0.2)
        return answer

    answers = await asyncio.gather(*map(asked, specs))
    found = []
    for spec, answer in zip(specs, answers, strict=True):
        ours = refusal(spec)
        assert answer.accepted or answer.status in (400, 422), answer.body
        if answer.accepted == bool(ours):
            server = "accepts it" if answer.accepted else f"says: {answer.message}"
            found.append(f"{json.dumps(spec)}\n  the server {server}\n  reconcile says: {ours or 'nothing'}")
    return found


async def test_both_judge_every_single_value_alike(api: Api, namespace: str) -> None:
    specs = spec_generator.single_values()

    found = await disagreements(api, namespace, specs)

    assert not found, "\n".join(found)


async def test_both_judge_every_pair_and_triple_of_fields_with_rules_between_them_alike(
    api: Api, namespace: str
) -> None:
    found = await disagreements(api, namespace, spec_generator.combinations())

    assert not found, "\n".join(found)


@pytest.mark.parametrize("seed", [1, 2])
async def test_both_judge_random_specs_alike(api: Api, namespace: str, seed: int) -> None:
    random = Random(seed)
    specs = [spec_generator.spec(random) for _ in range(DRAWS)]
    # Or the test would say nothing of one of the two.
    refused = sum(bool(refusal(spec)) for spec in specs)
    assert DRAWS * 0.2 < refused < DRAWS * 0.8

    found = await disagreements(api, namespace, specs)

    assert not found, "\n".join(found)
