"""An answer that `reconcile` would not give is no answer at all."""

from __future__ import annotations

import pytest

from headrace.core.channel.customize import CustomizeAnswer
from headrace.core.channel.hook import HookResponse
from headrace.core.errors import Unavailable
from headrace_operator.channels import hook_client


@pytest.mark.parametrize("text", ["<html>", "[]", '{"resyncAfterSeconds": "soon"}', "[" * 100_000])
def test_an_answer_that_is_not_reconciles_is_no_answer(text: str) -> None:
    with pytest.raises(Unavailable, match="but not as reconcile does"):
        hook_client.parse(text, "http://127.0.0.1/sync", HookResponse.from_json)


@pytest.mark.parametrize("text", ["<html>", "[]", '{"relatedResources": [{"apiVersion": "v1"}]}'])
def test_nor_is_one_that_asks_for_nothing_that_can_be_watched(text: str) -> None:
    with pytest.raises(Unavailable, match="but not as reconcile does"):
        hook_client.parse(text, "http://127.0.0.1/customize", CustomizeAnswer.from_json)
