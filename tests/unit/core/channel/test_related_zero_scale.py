"""Where a revision may begin with no pod: the question to Knative about that, and the meaning of its answer."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.channel import related
from headrace.core.installation.reconcile_settings import ReconcileSettings
from tests.support.functions.channels import channel

AUTOSCALER = {
    "apiVersion": "v1",
    "resource": "configmaps",
    "namespace": "knative-serving",
    "names": ["config-autoscaler"],
}


@pytest.mark.parametrize(
    ("settings", "stock", "asked"),
    [
        pytest.param({"image": "x"}, False, [AUTOSCALER], id="as it is installed beside Knative Serving"),
        pytest.param({"image": "x", "runtime": "deployment"}, False, [], id="nothing is scaled by Knative"),
        pytest.param({"image": "x", "zero_initial_scale": False}, False, [], id="somebody has said so already"),
        pytest.param({}, False, [], id="a laptop"),
        pytest.param({"image": "x"}, True, [], id="a stock Metacontroller refuses rules for other namespaces"),
    ],
)
def test_what_knatives_autoscaler_allows_is_asked_for(
    settings: dict[str, Any], stock: bool, asked: list[dict[str, Any]]
) -> None:
    rules = related.rules(channel(), ReconcileSettings(**settings), stock=stock)

    assert [rule.to_json() for rule in rules if rule.namespace == "knative-serving"] == asked


def config(data: Any, namespace: str = "knative-serving") -> dict[str, Any]:
    body = {"metadata": {"namespace": namespace, "name": "config-autoscaler"}, "data": data}
    return {"ConfigMap.v1": {f"{namespace}/config-autoscaler": body}}


@pytest.mark.parametrize(
    ("setting", "found", "allowed"),
    [
        pytest.param("auto", config({"allow-zero-initial-scale": "true"}), True, id="Knative allows it"),
        pytest.param("auto", config({"allow-zero-initial-scale": "T"}), True, id="as Go reads it"),
        pytest.param("auto", config({"allow-zero-initial-scale": "false"}), False, id="Knative does not"),
        pytest.param(
            "auto", config({"_example": "allow-zero-initial-scale: true"}), False, id="by default it does not"
        ),
        pytest.param("auto", config(None), False, id="without data"),
        pytest.param("auto", config({"allow-zero-initial-scale": "true"}, "shop"), False, id="somebody else's"),
        pytest.param("auto", {"ConfigMap.v1": {}}, False, id="not there"),
        pytest.param("auto", {}, None, id="not listed yet, or not ours to see"),
        pytest.param("true", {}, True, id="said"),
        pytest.param("1", {}, True, id="said as an earlier version took it, too"),
        pytest.param("False", config({"allow-zero-initial-scale": "true"}), False, id="said otherwise"),
    ],
)
def test_where_a_revision_may_begin_with_no_pod(setting: str, found: dict[str, Any], allowed: bool | None) -> None:
    settings = ReconcileSettings.model_validate({"HEADRACE_ZERO_INITIAL_SCALE": setting})

    assert related.may_begin_at_zero(found, settings.zero_initial_scale) is allowed


def test_another_config_map_that_is_seen_does_not_say_that_this_one_is_not_there() -> None:
    body = {"metadata": {"namespace": "knative-eventing", "name": "config-features"}, "data": {}}
    found = {"ConfigMap.v1": {"knative-eventing/config-features": body}}

    assert related.may_begin_at_zero(found, "auto", ["ConfigMap.v1/knative-serving/config-autoscaler"]) is None
    assert related.may_begin_at_zero(found, "auto", []) is False
