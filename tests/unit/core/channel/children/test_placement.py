"""Where the functions of a channel run, under which names, and how the channel is reached."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.channel.children import MountedFile, NatsMounts
from headrace.core.errors import InvalidSpec, Misconfigured
from headrace.core.installation.reconcile_settings import ReconcileSettings
from headrace.core.manifest.manifest import parse
from headrace.io.process import environment
from tests.support.functions.channels import channel, entry
from tests.support.functions.children import IMAGE, at, called, the, wanted

KSVC, DEPLOYMENT = "Service.serving.knative.dev/v1", "Deployment.apps/v1"
NAMESPACED = {"eventing.knative.dev/scope": "namespace"}
OWN = NatsMounts().with_credentials("channel", [MountedFile("nats.creds", "nats.creds", secret="theirs")])


def namespaces(**given: Any) -> set[str]:
    functions = wanted(entry(), **given)
    return {one["metadata"]["namespace"] for one in functions.objects if one["metadata"]["name"] != SERVICE}


SERVICE = "orders-kn-jsm-channel"
HOST_URLS = {"host_urls": True}


def test_without_an_image_there_are_no_functions() -> None:
    functions = wanted(entry(), settings={"image": None})

    assert (functions.objects, functions.urls, functions.forwards, functions.conditions) == ((), (), {}, ())


@pytest.mark.parametrize(
    ("given", "namespace"),
    [
        pytest.param({}, "knative-eventing", id="cluster scope"),
        pytest.param({"settings": {"system_namespace": "headrace"}}, "headrace", id="another system namespace"),
        pytest.param({"annotations": NAMESPACED}, "shop", id="namespace scope"),
        pytest.param({"access": OWN}, "shop", id="credentials of the channel's own can be mounted there only"),
    ],
)
def test_where_functions_run(given: dict[str, Any], namespace: str) -> None:
    assert namespaces(**given) == {namespace}


def test_a_scope_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidSpec, match="'galaxy': it should be cluster or namespace") as refused:
        wanted(annotations={"eventing.knative.dev/scope": "galaxy"})

    assert refused.value.field == "metadata.annotations[eventing.knative.dev/scope]"


@pytest.mark.parametrize("name", ["runtime", "isolation", "keda"])
def test_an_annotation_that_makes_no_sense_is_refused_by_its_name(name: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        wanted(annotations={f"headrace.dev/{name}": "perhaps"})

    assert refused.value.field == f"metadata.annotations[headrace.dev/{name}]"


def test_the_functions_of_a_channel_under_knative_are_all_such_that_sleep() -> None:
    functions = wanted(entry())

    forward = the(functions, KSVC, "forward")["metadata"]["name"]
    sleeping = ["Service knative-eventing/headrace-receive", f"Service knative-eventing/{forward}"]
    assert called(functions) == sorted(sleeping)
    host_urls = [
        "Deployment knative-eventing/headrace-receive-plain",
        "Service knative-eventing/headrace-receive-plain",
    ]
    assert called(wanted(entry(), settings=HOST_URLS)) == sorted(
        [*sleeping, *host_urls, "Service shop/orders-kn-jsm-channel"]
    )
    assert {one.url for one in functions.forwards.values()} == {f"http://{forward}.knative-eventing.svc.cluster.local"}


def test_what_several_share_is_labelled_so_and_nothing_else_is() -> None:
    functions = wanted(entry(), annotations=NAMESPACED, settings=HOST_URLS)

    shared = {
        one["metadata"]["name"]: one["metadata"]["labels"].get("headrace.dev/scope")
        for one in functions.objects
        if one["metadata"]["labels"].get("headrace.dev/shared") == "true"
    }
    assert shared == {
        "headrace-receive": "namespace",
        "headrace-receive-plain": "namespace",
        "headrace-reconcile-plain": "namespace",
    }


def test_those_of_the_system_namespace_are_the_clusters_whoever_lives_there() -> None:
    """Or they would go with the last channel of that namespace, and all other channels need them."""
    functions = wanted(entry(), namespace="knative-eventing", annotations=NAMESPACED)

    assert the(functions, KSVC, "receive")["metadata"]["labels"]["headrace.dev/scope"] == "cluster"


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"access": OWN}, id="credentials of its own"),
        pytest.param({"deploymentSpecTemplate": {"resources": {"limits": {"cpu": 1}}}}, id="wishes for its pods"),
    ],
)
def test_what_only_one_channel_has_it_shares_with_nobody(given: dict[str, Any]) -> None:
    one = wanted(entry(), settings={"isolation": "shared"}, **given)
    other = wanted(entry(), name="bills", settings={"isolation": "shared"}, **given)

    assert not [each for each in (*one.objects, *other.objects) if "headrace.dev/shared" in each["metadata"]["labels"]]
    assert not set(called(one)) & set(called(other))


def test_an_empty_template_asks_for_nothing() -> None:
    assert called(wanted(entry(), deploymentSpecTemplate={})) == called(wanted(entry()))


TEMPLATE = {
    "annotations": {"note": "a", "autoscaling.knative.dev/max-scale": "99"},
    "labels": {"team": "a"},
    "nodeSelector": {"disk": "ssd"},
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
            }
        }
    },
    "resources": {"limits": {"memory": "1Gi", "cpu": 2}},
    "tolerations": [{"key": "spot", "operator": "Exists", "tolerationSeconds": 5}],
    "priorityClassName": "high",
    "imagePullSecrets": [{"name": "theirs"}],
}


@pytest.mark.parametrize("component", ["receive", "forward"])
@pytest.mark.parametrize("kind", [KSVC, DEPLOYMENT])
def test_the_authors_template_is_obeyed_by_all_pods_of_the_channel(kind: str, component: str) -> None:
    settings = {"pull_secrets": "ours, theirs", "runtime": "knative" if kind == KSVC else "deployment"}

    wishes = {"annotations": NAMESPACED, "deploymentSpecTemplate": TEMPLATE}
    pods = the(wanted(entry(), settings=settings, **wishes), kind, component)["spec"]["template"]

    for key in ("nodeSelector", "affinity", "tolerations", "priorityClassName"):
        assert pods["spec"][key] == TEMPLATE[key]
    assert at(pods, "spec/containers/0/resources") == TEMPLATE["resources"]
    assert pods["spec"]["imagePullSecrets"] == [{"name": "ours"}, {"name": "theirs"}]
    assert (pods["metadata"]["annotations"]["note"], pods["metadata"]["labels"]["team"]) == ("a", "a")
    if (kind, component) == (KSVC, "forward"):
        assert pods["metadata"]["annotations"]["autoscaling.knative.dev/max-scale"] == "4"


def test_the_installation_has_further_variables_which_never_take_the_place_of_ours() -> None:
    settings = environment.fill(
        ReconcileSettings,
        {"HEADRACE_IMAGE": "i", "HEADRACE_FUNCTIONS_ENV": "LOG_LEVEL=debug A=b=c EMPTY= FUNCTION_TARGET=receive"},
    )

    body = the(wanted(entry(), settings=settings.model_dump()), KSVC, "forward")

    variables = {one["name"]: one["value"] for one in at(body, "spec/template/spec/containers/0/env")}
    assert (variables["LOG_LEVEL"], variables["A"], variables["EMPTY"]) == ("debug", "b=c", "")
    assert variables["FUNCTION_TARGET"] == "forward"


@pytest.mark.parametrize("text", ["LOG_LEVEL", "=x", "1A=x", "A=b c"])
def test_a_variable_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(Misconfigured, match=r"HEADRACE_FUNCTIONS_ENV is .*: give NAME=value"):
        environment.fill(ReconcileSettings, {"HEADRACE_FUNCTIONS_ENV": text})


def test_credentials_of_the_channel_are_in_a_folder_of_their_own_beside_the_clusters() -> None:
    files = [
        MountedFile("a", "nats.creds", secret="theirs"),
        MountedFile("ca.crt", "ca.crt", secret="ca", optional=True),
    ]
    access = (
        NatsMounts()
        .with_credentials("cluster", [MountedFile("t", "token", secret="ours")])
        .with_credentials("channel", files)
    )

    body = the(wanted(entry(), access=access), KSVC, "receive")

    assert body["metadata"]["namespace"] == "shop"
    assert [one["mountPath"] for one in at(body, "spec/template/spec/containers/0/volumeMounts")] == [
        "/etc/headrace/credentials/cluster",
        "/etc/headrace/credentials/channel",
        "/etc/headrace/security",
    ]
    assert at(body, "spec/template/spec/volumes/1/projected/sources") == [
        {"secret": {"name": "theirs", "items": [{"key": "a", "path": "nats.creds"}]}},
        {"secret": {"name": "ca", "items": [{"key": "ca.crt", "path": "ca.crt"}], "optional": True}},
    ]


@pytest.mark.parametrize(("annotations", "accounts"), [({}, []), (NAMESPACED, ["ServiceAccount shop/runner"])])
def test_a_service_account_is_made_where_nobody_has_prepared_one(
    annotations: dict[str, str], accounts: list[str]
) -> None:
    functions = wanted(entry(), settings={"service_account": "runner"}, annotations=annotations)

    assert [one for one in called(functions) if one.startswith("ServiceAccount")] == accounts
    assert at(the(functions, KSVC, "receive"), "spec/template/spec/serviceAccountName") == "runner"


@pytest.mark.parametrize(
    ("given", "urls"),
    [
        pytest.param(
            {"settings": HOST_URLS},
            (
                "http://headrace-receive.knative-eventing.svc.cluster.local/shop/orders",
                "http://orders-kn-jsm-channel.shop.svc.cluster.local",
            ),
            id="knative: by path, since its gateway knows no other hosts, and the Go channel's URL beside it",
        ),
        pytest.param(
            {"settings": {"domain": "example.org"}},
            ("http://headrace-receive.knative-eventing.svc.example.org/shop/orders",),
            id="knative, nothing that runs all the time",
        ),
        pytest.param(
            {"settings": {"runtime": "deployment"}},
            ("http://orders-kn-jsm-channel.shop.svc.cluster.local",),
            id="deployment: by host, as the Go channel",
        ),
        pytest.param(
            {"settings": {"runtime": "deployment"}, "name": "7-up"},
            ("http://headrace-receive-plain.knative-eventing.svc.cluster.local/shop/7-up",),
            id="a name that no Service can have",
        ),
        pytest.param(
            {"settings": {"address": "http://gate/", **HOST_URLS}},
            (
                "http://gate/shop/orders",
                "http://headrace-receive.knative-eventing.svc.cluster.local/shop/orders",
                "http://orders-kn-jsm-channel.shop.svc.cluster.local",
            ),
            id="an address that the deployer gives",
        ),
    ],
)
def test_how_a_channel_is_reached(given: dict[str, Any], urls: tuple[str, ...]) -> None:
    assert wanted(entry(), **given).urls == urls


def test_the_service_of_a_channel_leads_to_a_receive_that_knows_it_by_its_host() -> None:
    body = the(wanted(entry(), settings=HOST_URLS), "Service.v1", "channel")

    assert body["metadata"] == {
        "name": "orders-kn-jsm-channel",
        "namespace": "shop",
        "labels": {
            "app.kubernetes.io/name": "headrace",
            "app.kubernetes.io/component": "channel",
            "app.kubernetes.io/managed-by": "headrace",
            "messaging.knative.dev/role": "nats-jetstream-channel",
        },
    }
    assert body["spec"] == {
        "type": "ExternalName",
        "externalName": "headrace-receive-plain.knative-eventing.svc.cluster.local",
        "ports": [{"name": "http", "port": 80, "targetPort": 80, "protocol": "TCP"}],
    }


def test_an_entry_that_can_not_be_delivered_to_has_no_function() -> None:
    assert wanted(entry(subscriberUri="ftp://no")).forwards == {}


def test_the_image_is_the_one_that_was_set() -> None:
    functions = wanted(entry(), settings=HOST_URLS)
    images = {at(one, "spec/template/spec/containers/0/image") for one in functions.objects}

    assert images == {IMAGE, None}
    assert parse(channel()).spec.deployment_spec_template is None
