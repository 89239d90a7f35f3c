"""Plain Deployments, their Services, and KEDA's word on them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.core.channel import children, consumer
from headrace.core.channel.children import Cluster, ServedConsumer
from headrace.core.delivery.subscriber import Destination
from headrace.core.installation.reconcile_settings import ReconcileSettings
from headrace.core.manifest import manifest
from tests.support.functions.channels import channel, entry
from tests.support.functions.children import IMAGE, KEDA, SERVING, all_of, at, called, the, wanted

DEPLOYMENT, SERVICE, SCALED = "Deployment.apps/v1", "Service.v1", "ScaledObject.keda.sh/v1alpha1"
PLAIN = {"runtime": "deployment"}
WITH_KEDA = {**PLAIN, "keda_monitoring": "nats.nats-io.svc:8222"}
POD = "spec/template/spec/"
CONTAINER = POD + "containers/0/"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        pytest.param("spec/replicas", None, id="a person's or an autoscaler's word counts"),
        pytest.param("spec/strategy/rollingUpdate", {"maxUnavailable": 0, "maxSurge": 1}, id="no gap in a roll-out"),
        pytest.param(POD + "terminationGracePeriodSeconds", 90, id="what is in hand may take a delivery of 60 s"),
        pytest.param(POD + "automountServiceAccountToken", False, id="it never talks to Kubernetes"),
        pytest.param(POD + "enableServiceLinks", False, id="thousands of Services would be thousands of variables"),
        pytest.param(CONTAINER + "securityContext/runAsNonRoot", True, id="restricted"),
        pytest.param(CONTAINER + "startupProbe/failureThreshold", 30, id="half a minute to start in"),
        pytest.param(CONTAINER + "readinessProbe/httpGet/path", "/health/readiness", id="ready"),
        pytest.param(CONTAINER + "livenessProbe/httpGet/path", "/health/liveness", id="alive"),
        pytest.param(CONTAINER + "lifecycle", None, id="nobody is routed to it"),
        pytest.param(
            CONTAINER + "env",
            [
                {"name": "FUNCTION_TARGET", "value": "forward"},
                {"name": "NATS_URL", "value": "nats://nats:4222"},
                {"name": "HEADRACE_SECURITY_DIR", "value": "/etc/headrace/security"},
                {"name": "FORWARD_CONSUMERS", "value": "KN_SHOP__ORDERS/KN_SUB_AAAA1"},
                {"name": "HEADRACE_CALLER_DIGEST", "value": "known by forward-plain-billing-51a192eb79d3821e"},
                {"name": "HEADRACE_SECURITY_PLACE", "value": "knative-eventing"},
            ],
            id="it pulls for its consumer without end",
        ),
    ],
)
def test_forward_of_a_subscriber(path: str, value: object) -> None:
    assert at(the(wanted(entry(), settings=PLAIN), DEPLOYMENT, "forward"), path) == value


def test_receive_is_routed_to_for_a_moment_after_it_was_told_to_end() -> None:
    body = the(wanted(entry(), settings=PLAIN), DEPLOYMENT, "receive")

    assert at(body, CONTAINER + "lifecycle") == {"preStop": {"sleep": {"seconds": 5}}}
    assert at(body, POD + "terminationGracePeriodSeconds") == 60


def test_services_lead_to_the_pods_of_their_deployment_and_to_no_others() -> None:
    functions = wanted(entry("a"), entry("b", "mail"), settings=PLAIN)
    pods = {one["metadata"]["name"]: one["spec"]["template"]["metadata"] for one in all_of(functions, DEPLOYMENT)}

    for service in [*all_of(functions, SERVICE, "forward"), *all_of(functions, SERVICE, "receive")]:
        selected = [name for name, pod in pods.items() if service["spec"]["selector"].items() <= pod["labels"].items()]
        assert selected == [service["metadata"]["name"]]
        assert service["spec"]["ports"] == [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}]


def test_receive_knows_the_domain_of_the_cluster() -> None:
    functions = wanted(entry(), settings={**PLAIN, "domain": "k8s.example"})

    variables = the(functions, DEPLOYMENT, "receive")["spec"]["template"]["spec"]["containers"][0]["env"]
    assert {"name": "HEADRACE_CLUSTER_DOMAIN", "value": "k8s.example"} in variables
    assert "RECEIVE_HOST_ADDRESSES" not in {one["name"] for one in variables}


def test_a_deployment_selects_its_own_pods_whatever_the_author_labels_them() -> None:
    template = {"labels": {"headrace.dev/function": "mine", "app.kubernetes.io/name": "mine", "team": "a"}}

    scope = {"eventing.knative.dev/scope": "namespace"}
    functions = wanted(entry(), settings=PLAIN, annotations=scope, deploymentSpecTemplate=template)

    body = the(functions, DEPLOYMENT, "forward")
    labels = body["spec"]["template"]["metadata"]["labels"]
    assert body["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert (labels["app.kubernetes.io/name"], labels["team"]) == ("headrace", "a")


def test_keda_scales_from_zero_by_the_lag_of_the_consumer() -> None:
    functions = wanted(
        entry(), settings=WITH_KEDA, annotations={"headrace.dev/lag-threshold": "50", "headrace.dev/max-scale": "3"}
    )

    body = the(functions, SCALED, "forward")

    deployment = the(functions, DEPLOYMENT, "forward")["metadata"]["name"]
    assert body["spec"] == {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": deployment},
        "pollingInterval": 5,
        "cooldownPeriod": 30,
        "minReplicaCount": 0,
        "maxReplicaCount": 3,
        "fallback": {"failureThreshold": 3, "replicas": 1},
        "triggers": [
            {
                "type": "nats-jetstream",
                "metadata": {
                    "natsServerMonitoringEndpoint": "nats.nats-io.svc:8222",
                    "useHttps": "false",
                    "account": "$G",
                    "stream": "KN_SHOP__ORDERS",
                    "consumer": "KN_SUB_AAAA1",
                    "lagThreshold": "50",
                    "activationLagThreshold": "0",
                },
            }
        ],
    }


def test_monitoring_by_https() -> None:
    settings = {**PLAIN, "keda_monitoring": "https://nats:8222", "keda_account": "A"}

    (trigger,) = the(wanted(entry(), settings=settings), SCALED, "forward")["spec"]["triggers"]

    told = trigger["metadata"]
    assert (told["natsServerMonitoringEndpoint"], told["useHttps"], told["account"]) == ("nats:8222", "true", "A")


@pytest.mark.parametrize(
    ("settings", "annotation", "apis", "scaled", "reason"),
    [
        pytest.param(WITH_KEDA, None, [KEDA], True, None, id="where monitoring is known"),
        pytest.param(WITH_KEDA, "false", [KEDA], False, None, id="not wanted"),
        pytest.param(WITH_KEDA, None, [], False, None, id="not there, and nobody has asked"),
        pytest.param(WITH_KEDA, "true", [], False, "does not serve keda.sh/v1alpha1", id="asked for and not there"),
        pytest.param(PLAIN, "true", [KEDA], False, "HEADRACE_KEDA_MONITORING is not set", id="asked for, no endpoint"),
        pytest.param(
            {**WITH_KEDA, "isolation": "shared"}, "true", [KEDA], False, "serves many consumers", id="of a shared one"
        ),
        pytest.param(
            {"keda_monitoring": "nats:8222"}, "true", [KEDA, SERVING], False, None, id="Knative scales itself"
        ),
    ],
)
def test_whether_keda_scales(
    settings: dict[str, str], annotation: str | None, apis: list[str], scaled: bool, reason: str | None
) -> None:
    annotations = {"headrace.dev/keda": annotation} if annotation else {}

    functions = wanted(entry(), settings=settings, apis=apis, annotations=annotations)

    assert bool(all_of(functions, SCALED)) is scaled
    said = {one.type: one for one in functions.conditions}.get("ScaledByKeda")
    if reason is None:
        assert said is None
    else:
        assert said is not None
        assert (said.holds, said.reason, said.informative) == (False, "KedaNotUsed", True)
        assert reason in said.message


def test_a_shared_forward_is_one_deployment_to_which_the_operator_opens_leases() -> None:
    functions = wanted(entry("a"), entry("b", "mail"), settings={**PLAIN, "isolation": "shared"})

    assert called(functions) == [
        "Deployment knative-eventing/headrace-forward-plain",
        "Deployment knative-eventing/headrace-receive-plain",
        "Service knative-eventing/headrace-forward-plain",
        "Service knative-eventing/headrace-receive-plain",
        "Service shop/orders-kn-jsm-channel",
    ]
    assert {(one.url, one.pulls) for one in functions.forwards.values()} == {
        ("http://headrace-forward-plain.knative-eventing.svc.cluster.local", False)
    }


def test_one_that_pulls_without_end_says_so() -> None:
    functions = wanted(entry(), settings=PLAIN)

    (forward,) = functions.forwards.values()
    name = the(functions, DEPLOYMENT, "forward")["metadata"]["name"]
    assert (forward.url, forward.pulls) == (f"http://{name}.knative-eventing.svc.cluster.local", True)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_one_whose_addresses_ask_for_tokens_pulls_in_the_operators_leases_alone(elsewhere: bool) -> None:
    parsed, ours = manifest.parse(channel(entry())), ReconcileSettings(image=IMAGE, runtime="deployment")
    (row,) = consumer.rows(parsed, "KN_SHOP__ORDERS")
    assert row.subscriber is not None
    asking = replace(row.subscriber, reply=Destination("http://reply/", audience="billing"))
    served, cluster = [ServedConsumer("KN_SUB_1", asking)], Cluster(elsewhere=elsewhere)

    functions = children.functions(parsed, "KN_SHOP__ORDERS", served, ours, children.by_settings(ours), cluster)

    assert [one.pulls for one in functions.forwards.values()] == [False]
    container = the(functions, DEPLOYMENT, "forward")["spec"]["template"]["spec"]["containers"][0]
    assert "FORWARD_CONSUMERS" not in {one["name"] for one in container["env"]}


def test_a_stream_that_is_called_like_a_variable_brings_no_function_its_value() -> None:
    """The kubelet writes the value of another variable in the place of `$(NAME)`; `$$(NAME)` stays `$(NAME)`."""
    parsed = manifest.parse(channel(entry()))
    (row,) = consumer.rows(parsed, "$(NATS_URL)")
    assert row.subscriber is not None
    ours = ReconcileSettings(image=IMAGE, runtime="deployment")
    served = [ServedConsumer("KN_SUB_1", row.subscriber)]

    functions = children.functions(parsed, "$(NATS_URL)", served, ours, children.by_settings(ours), Cluster())

    container = the(functions, DEPLOYMENT, "forward")["spec"]["template"]["spec"]["containers"][0]
    assert {"name": "FORWARD_CONSUMERS", "value": "$$(NATS_URL)/KN_SUB_1"} in container["env"]
