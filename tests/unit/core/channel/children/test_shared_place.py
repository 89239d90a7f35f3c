"""Pods in the system namespace: which of their author's wishes are obeyed there, and how the others are told."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.channel import children
from headrace.core.installation.function_bounds import FunctionBounds, number
from headrace.core.installation.reconcile_settings import ReconcileSettings
from headrace.core.installation.secret_files import SecretFile
from tests.support.functions.channels import entry
from tests.support.functions.children import IMAGE, all_of, at, called, the, wanted

KSVC, DEPLOYMENT = "Service.serving.knative.dev/v1", "Deployment.apps/v1"
PLAIN = {"runtime": "deployment"}
# What an attacker would like: another's requests, a node of its own, and another's Secret.
ATTACK = {
    "labels": {"app": "eventing-webhook", "serving.knative.dev/revisionUID": "x"},
    "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"},
    "nodeSelector": {"node-role.kubernetes.io/control-plane": ""},
    "tolerations": [{"operator": "Exists"}],
    "priorityClassName": "system-cluster-critical",
    "imagePullSecrets": [{"name": "registry"}],
    "resources": {"limits": {"memory": "500Gi", "nvidia.com/gpu": 8}, "requests": {"cpu": 64}},
}


def pods(component: str = "receive", **given: Any) -> Any:
    functions = wanted(entry(), settings=PLAIN, **given)
    return the(functions, DEPLOYMENT, component)["spec"]["template"]


def resources(**asked: Any) -> Any:
    return at(pods(deploymentSpecTemplate={"resources": asked}), "spec/containers/0/resources")


@pytest.mark.parametrize("component", ["receive", "forward"])
def test_a_tenants_template_brings_the_system_namespace_nothing_but_resources_within_bounds(component: str) -> None:
    found, usual = pods(component, deploymentSpecTemplate=ATTACK), pods(component)

    assert found["metadata"]["labels"].keys() <= usual["metadata"]["labels"].keys()
    assert set(found["metadata"]["annotations"]) <= {"headrace.dev/channel", "headrace.dev/subscription"}
    assert found["spec"].keys() == usual["spec"].keys()
    assert at(found, "spec/containers/0/resources") == {
        "limits": {"cpu": "2", "memory": "1Gi"},
        "requests": {"cpu": "2"},
    }


def test_each_wish_that_is_not_obeyed_is_told_with_its_value_the_rule_and_who_opens_it() -> None:
    told = wanted(entry(), deploymentSpecTemplate=ATTACK).beyond

    assert told[4] == (
        "spec.deploymentSpecTemplate.priorityClassName is 'system-cluster-critical': the functions run in namespace "
        "knative-eventing, which is not the channel's, and take only resources there: the annotation "
        "eventing.knative.dev/scope: namespace has them run in the channel's own, or an administrator opens it: "
        "functions: {template: [priorityClassName]} in key tenants of ConfigMap config-ch-jetstream-defaults"
    )
    assert told[6:] == (
        "spec.deploymentSpecTemplate.resources.limits[memory] is '500Gi': at most 1Gi, or an administrator opens it: "
        "functions: {resources: {memory: …}} in key tenants of ConfigMap config-ch-jetstream-defaults",
        "spec.deploymentSpecTemplate.resources.limits[nvidia.com/gpu] is 8: only cpu and memory can be asked for here",
        "spec.deploymentSpecTemplate.resources.requests[cpu] is 64: at most 2, or an administrator opens it: "
        "functions: {resources: {cpu: …}} in key tenants of ConfigMap config-ch-jetstream-defaults",
    )
    assert len(told) == 9


def test_a_channel_whose_wishes_are_all_refused_has_no_functions_of_its_own() -> None:
    refused = {key: value for key, value in ATTACK.items() if key != "resources"}

    assert called(wanted(deploymentSpecTemplate=refused)) == called(wanted())


def test_what_an_administrator_opens_is_obeyed_but_for_the_keys_by_which_services_know_pods() -> None:
    opened = FunctionBounds(template=frozenset({"labels", "tolerations"}), resources={"cpu": 4, "nvidia.com/gpu": 1})

    functions = wanted(entry(), settings=PLAIN, bounds=opened, deploymentSpecTemplate=ATTACK)

    found = the(functions, DEPLOYMENT, "receive")["spec"]["template"]
    assert found["spec"]["tolerations"] == ATTACK["tolerations"]
    assert (found["metadata"]["labels"]["app"], "priorityClassName" in found["spec"]) == ("eventing-webhook", False)
    assert "serving.knative.dev/revisionUID" not in found["metadata"]["labels"]
    assert at(found, "spec/containers/0/resources/limits") == {"cpu": 4, "nvidia.com/gpu": 1}


def test_what_the_administrators_own_defaults_wish_for_is_obeyed() -> None:
    default = {"labels": {"team": "a"}, "nodeSelector": {"pool": "events"}, "resources": {"limits": {"memory": "4Gi"}}}

    plain = pods(deploymentSpecTemplate=default, given=default)
    mixed = pods(deploymentSpecTemplate={**default, "labels": {"team": "a", "app": "webhook"}}, given=default)

    assert (plain["spec"]["nodeSelector"], plain["metadata"]["labels"]["team"]) == ({"pool": "events"}, "a")
    assert at(plain, "spec/containers/0/resources") == default["resources"]
    assert mixed == plain


@pytest.mark.parametrize(
    ("asked", "got"),
    [
        pytest.param(
            {"limits": {"cpu": "500m"}}, {"limits": {"cpu": "500m", "memory": "256Mi"}}, id="the usual memory"
        ),
        pytest.param(
            {"requests": {"memory": "512Mi"}},
            {"limits": {"cpu": "1", "memory": "512Mi"}, "requests": {"memory": "512Mi"}},
            id="no limit is none that takes the node",
        ),
        pytest.param(
            {"limits": {"memory": "1e999"}}, {"limits": {"cpu": "1", "memory": "1Gi"}}, id="beyond all numbers"
        ),
        pytest.param(
            {"limits": {"cpu": "0", "memory": 0}}, {"limits": {"cpu": "1", "memory": "256Mi"}}, id="0 is no limit"
        ),
        pytest.param(
            {"limits": {"cpu": "-1", "memory": "1e-400"}, "requests": {"memory": "-1"}},
            {"limits": {"cpu": "1", "memory": "256Mi"}},
            id="less than nothing",
        ),
        pytest.param(
            {"requests": {"cpu": 9}, "limits": {"cpu": 1}},
            {"limits": {"cpu": 1, "memory": "256Mi"}, "requests": {"cpu": 1}},
            id="a request is no more than the limit",
        ),
    ],
)
def test_each_container_has_limits(asked: dict[str, Any], got: dict[str, Any]) -> None:
    assert resources(**asked) == got


quantities = st.one_of(
    st.integers(0, 10**12),
    st.from_regex(r"[0-9]{1,12}(\.[0-9]{0,3})?([KMGTPE]i|[numkMGTPE]|e[0-9]{1,3})?", fullmatch=True),
)
asked = st.dictionaries(st.sampled_from(["cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "gpu"]), quantities)


@settings(max_examples=200)
@given(st.fixed_dictionaries({}, optional={"limits": asked, "requests": asked}))
def test_whatever_is_asked_for_is_within_the_bounds(asked: dict[str, Any]) -> None:
    found = resources(**asked)

    most = {"cpu": 2.0, "memory": 2.0**30}
    assert found["limits"].keys() == most.keys()
    for name, quantity in found["limits"].items():
        assert 0 < number(quantity) <= most[name]
    for name, quantity in found.get("requests", {}).items():
        assert number(quantity) <= number(found["limits"][name])


def test_in_its_own_namespace_a_channel_may_have_all_but_our_keys() -> None:
    labels = {"team": "a", "app.kubernetes.io/component": "receive", "headrace.dev/function": "headrace-receive"}
    functions = wanted(
        annotations={"eventing.knative.dev/scope": "namespace"},
        deploymentSpecTemplate={**ATTACK, "labels": labels},
    )

    assert functions.beyond == (
        "spec.deploymentSpecTemplate.labels[app.kubernetes.io/component] is 'receive': the key is Headrace's own",
        "spec.deploymentSpecTemplate.labels[headrace.dev/function] is 'headrace-receive': the key is Headrace's own",
    )
    assert all_of(functions, KSVC, "receive")[0]["spec"]["template"]["spec"]["tolerations"] == ATTACK["tolerations"]


def test_leases_are_bounded_whoever_asks_for_them() -> None:
    """The operator holds them all, wherever the function runs."""
    many = {"headrace.dev/max-scale": "100000"}
    for functions in (wanted(entry(annotations=many)), wanted(entry(), annotations=many)):
        forward = the(functions, KSVC, "forward")
        assert at(forward, "spec/template/metadata/annotations")["autoscaling.knative.dev/max-scale"] == "20"


def test_secrets_that_a_tenant_names_are_mounted_in_pods_of_his_own_namespace_only() -> None:
    ours = ReconcileSettings(image=IMAGE, creds_secret="headrace-nats")
    named = [SecretFile("headrace-token", "token", "nats.creds", optional=True)]
    access = children.with_own(children.by_settings(ours), "headrace-token").with_named(named)

    for runtime in ("knative", "deployment"):
        functions = wanted(entry(), access=access, settings={"runtime": runtime, "host_urls": True})
        assert {one["metadata"]["namespace"] for one in functions.objects} == {"shop"}
