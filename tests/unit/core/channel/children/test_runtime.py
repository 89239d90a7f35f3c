"""Knative or Deployments: who decides, and what happens where there is no Knative Serving."""

from __future__ import annotations

import pytest

from tests.support.functions.channels import entry
from tests.support.functions.children import SERVING, all_of, called, the, wanted

KSVC, DEPLOYMENT = "Service.serving.knative.dev/v1", "Deployment.apps/v1"


@pytest.mark.parametrize(
    ("apis", "setting", "annotation", "kind"),
    [
        pytest.param([SERVING], "auto", None, KSVC, id="Knative where it is"),
        pytest.param([], "auto", None, DEPLOYMENT, id="Deployments where it is not"),
        pytest.param(None, "auto", None, DEPLOYMENT, id="nobody says: what works everywhere"),
        pytest.param([SERVING], "deployment", None, DEPLOYMENT, id="the installation's word"),
        pytest.param([SERVING], "deployment", "knative", KSVC, id="the author's word counts more"),
        pytest.param([SERVING], "knative", "deployment", DEPLOYMENT, id="the other way round"),
        pytest.param(None, "auto", "knative", KSVC, id="asked for, and nobody says that it is not there"),
        pytest.param(None, "knative", None, KSVC, id="the installation has seen to it"),
    ],
)
def test_which_runtime(apis: list[str] | None, setting: str, annotation: str | None, kind: str) -> None:
    annotations = {"headrace.dev/runtime": annotation} if annotation else {}

    functions = wanted(entry(), apis=apis, settings={"runtime": setting}, annotations=annotations)

    the(functions, kind, "forward")
    assert [one.type for one in functions.conditions] == ["FunctionsReady"]


def test_knative_without_serving_makes_the_channel_unready_and_says_why() -> None:
    functions = wanted(entry(), apis=[], annotations={"headrace.dev/runtime": "knative"})

    (lacking, _) = functions.conditions
    assert (lacking.type, lacking.holds, lacking.reason) == ("ServingInstalled", False, "ServingNotInstalled")
    assert not lacking.informative
    assert lacking.message == (
        "the cluster does not serve serving.knative.dev/v1, which the channel, Subscription shop/billing asks for: "
        "install Knative Serving, or take the annotation headrace.dev/runtime: knative out"
    )
    assert all_of(functions, KSVC) == []


def test_a_subscription_that_asks_for_what_is_not_there_harms_itself_only() -> None:
    asks = entry("a", annotations={"headrace.dev/runtime": "knative"})

    functions = wanted(asks, entry("b", "mail"), apis=[])

    lacking = functions.conditions[0]
    assert (lacking.type, lacking.informative) == ("ServingInstalled", True)
    assert list(functions.forwards) == ["KN_SUB_B"]
    the(functions, DEPLOYMENT, "forward")


def test_what_exists_is_not_torn_down_because_discovery_had_a_bad_moment() -> None:
    before = wanted(entry())

    after = wanted(entry(), apis=[], observed=before.objects)

    assert called(after) == called(before)


def test_a_subscription_has_a_word_of_its_own() -> None:
    own = entry("a", annotations={"headrace.dev/runtime": "deployment", "headrace.dev/isolation": "shared"})

    functions = wanted(own, entry("b", "mail"))

    assert the(functions, DEPLOYMENT, "forward")["metadata"]["name"] == "headrace-forward-plain"
    assert the(functions, KSVC, "forward")["metadata"]["name"].startswith("forward-mail-")
