"""Functions that have other users of NATS than the installation: their `reconcile`, their Secrets, and who pulls."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.channel import children
from headrace.core.channel.children import Cluster, NatsMounts
from headrace.core.installation import secret_files
from headrace.core.installation.reconcile_settings import ReconcileSettings
from headrace.core.installation.secret_files import SecretFile
from headrace.core.manifest import manifest
from tests.support.functions.channels import channel, entry
from tests.support.functions.children import (
    BOTH,
    IMAGE,
    SECURITY_VOLUME,
    all_of,
    as_observed,
    at,
    called,
    known_by,
    the,
    wanted,
)

KSVC, DEPLOYMENT, SERVICE = "Service.serving.knative.dev/v1", "Deployment.apps/v1", "Service.v1"
NAMESPACED = {"eventing.knative.dev/scope": "namespace"}
POD = "spec/template/spec/"
GIVEN = ReconcileSettings(image=IMAGE, creds_secret="headrace-nats", nats_config_map="config-nats")
USUAL = children.by_settings(GIVEN, known_by, lambda namespace: f"the key of {namespace}")
OWN = children.with_own(USUAL, "theirs")
NAMED = [SecretFile("nats-user", "user.creds", "nats.creds"), SecretFile("nats-ca", "ca.crt", "ca.crt", optional=True)]


def mounts(body: dict[str, Any]) -> dict[str, Any]:
    return {one["name"]: one["projected"]["sources"] for one in at(body, POD + "volumes")}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({}, [], id="the installation's own reconcile serves the cluster"),
        pytest.param({"annotations": NAMESPACED}, ["shop/headrace-reconcile-plain"], id="a namespace shares one"),
        pytest.param(
            {"annotations": NAMESPACED, "namespace": "knative-eventing"}, [], id="the system namespace is the cluster's"
        ),
        pytest.param({"deploymentSpecTemplate": {"labels": {"a": "b"}}}, [], id="wishes for pods are no credentials"),
    ],
)
def test_who_has_a_reconcile_of_its_own(given: dict[str, Any], expected: list[str]) -> None:
    found = all_of(wanted(entry(), **given), DEPLOYMENT, "own-reconcile")

    assert [f"{one['metadata']['namespace']}/{one['metadata']['name']}" for one in found] == expected


def test_a_channel_with_its_own_credentials_shares_its_reconcile_with_nobody() -> None:
    one, other = (
        the(wanted(entry(), access=OWN, name=name), DEPLOYMENT, "own-reconcile") for name in ("orders", "bills")
    )

    assert one["metadata"]["namespace"] == "shop"
    assert one["metadata"]["name"] != other["metadata"]["name"]
    assert "headrace.dev/shared" not in one["metadata"]["labels"]


def test_that_reconcile_can_be_asked_before_nats_lets_it_in_and_has_what_the_others_have() -> None:
    functions = wanted(entry(), access=OWN, settings={"runtime": "knative"})
    body = the(functions, DEPLOYMENT, "own-reconcile")
    name = body["metadata"]["name"]

    variables = {one["name"]: one["value"] for one in at(body, POD + "containers/0/env")}
    assert at(body, POD + "containers/0/readinessProbe/httpGet/path") == "/health/liveness"
    assert variables["FUNCTION_TARGET"] == "reconcile"
    assert variables["HEADRACE_CALLER_DIGEST"] == f"known by {name}"
    assert variables["NATS_FUNCTION_INBOX_PREFIX"] == "_INBOX_reconcile"
    receive = mounts(the(functions, KSVC, "receive"))
    assert {key: at for key, at in mounts(body).items() if not key.endswith("-function")} == {
        key: at for key, at in receive.items() if not key.endswith("-function") and key != "security"
    }
    assert f"Service shop/{name}" in called(functions)


@pytest.mark.parametrize(
    ("access", "namespace"),
    [pytest.param(USUAL, "knative-eventing", id="the installation's"), pytest.param(OWN, "shop", id="their own")],
)
def test_receive_and_forward_have_the_key_of_their_namespace_and_reconcile_has_none(
    access: children.NatsMounts, namespace: str
) -> None:
    functions = wanted(entry(), access=access, settings={"runtime": "deployment"})

    keys = {
        target: [one["value"] for one in at(body, POD + "containers/0/env") if one["name"] == "HEADRACE_DELIVERY_KEY"]
        for target in ("receive", "forward", "own-reconcile")
        for body in all_of(functions, DEPLOYMENT, target)
    }
    assert keys.pop("own-reconcile", []) == []
    assert keys == {"receive": [f"the key of {namespace}"], "forward": [f"the key of {namespace}"]}


@pytest.mark.parametrize("target", ["receive", "forward", "reconcile"])
def test_each_function_may_have_a_user_of_its_own_beside_each_secret(target: str) -> None:
    functions = wanted(entry(), access=OWN, settings={"runtime": "deployment"})

    found = mounts(the(functions, DEPLOYMENT, {"reconcile": "own-reconcile"}.get(target, target)))

    del found["nats-config"], found["nats-config-proposed"]
    found.pop("security", None)
    found.pop("tls", None)
    secrets = {name: [one["secret"]["name"] for one in sources] for name, sources in found.items()}
    assert secrets == {
        "nats-cluster": ["headrace-nats"],
        "nats-cluster-function": [f"headrace-nats-{target}"],
        "nats-channel": ["theirs"],
        "nats-channel-function": [f"theirs-{target}"],
    }
    assert all(one["secret"]["optional"] for sources in found.values() for one in sources)


def test_credentials_are_mounted_and_never_copied() -> None:
    settings = {"creds_secret": "nats-user", "nats_config_map": "config-jetstream"}

    body = the(wanted(entry(), settings=settings), KSVC, "receive")

    files = [{"key": file, "path": file} for file in secret_files.FILES]
    creds = {"name": "nats-user", "items": files, "optional": True}
    config = {"name": "config-jetstream", "optional": True}
    receives = {**creds, "name": "nats-user-receive"}
    assert at(body, "spec/template/spec/volumes") == [
        {"name": "nats-config", "projected": {"sources": [{"configMap": config}]}},
        {"name": "nats-cluster", "projected": {"sources": [{"secret": creds}]}},
        {
            "name": "nats-cluster-function",
            "projected": {"sources": [{"secret": receives}]},
        },
        SECURITY_VOLUME,
    ]
    assert at(body, "spec/template/spec/containers/0/volumeMounts") == [
        {"name": "nats-config", "mountPath": "/etc/headrace/nats-config/named", "readOnly": True},
        {"name": "nats-cluster", "mountPath": "/etc/headrace/credentials/cluster", "readOnly": True},
        {"name": "nats-cluster-function", "mountPath": "/etc/headrace/credentials/cluster-function", "readOnly": True},
        {"name": "security", "mountPath": "/etc/headrace/security", "readOnly": True},
    ]
    variables = {one["name"]: one["value"] for one in at(body, "spec/template/spec/containers/0/env")}
    assert variables["NATS_CONFIG_DIR"] == "/etc/headrace/nats-config"
    assert variables["NATS_CONFIG_NAME"] == "config-jetstream"
    assert variables["NATS_CREDENTIALS_DIR"] == "/etc/headrace/credentials"
    assert variables["NATS_FUNCTION_INBOX_PREFIX"] == "_INBOX_receive"


def test_the_proposals_config_map_is_mounted_beside_the_one_that_is_named_unless_one_is_chosen() -> None:
    def mounted(chosen: str) -> dict[str, str]:
        found = children.by_settings(GIVEN, config_map=chosen).mounts
        return {one.path: one.files[0].config_map for one in found if one.path.startswith("/etc/headrace/nats-config")}

    root = "/etc/headrace/nats-config"
    assert mounted("") == {f"{root}/named": "config-nats", f"{root}/proposed": "config-jetstream"}
    assert mounted("theirs") == {root: "theirs"}


def test_a_name_that_leaves_no_room_for_a_functions_has_none() -> None:
    access = children.with_own(NatsMounts(), "x" * 250)

    assert [one.volume for one in access.for_function("receive").mounts] == ["nats-channel", "security"]


def test_what_a_config_map_names_is_mounted_and_holds_up_no_pod() -> None:
    functions = wanted(entry(), access=USUAL.with_named(NAMED), annotations=NAMESPACED)

    expected = [
        {"secret": {"name": "nats-user", "items": [{"key": "user.creds", "path": "nats.creds"}], "optional": True}},
        {"secret": {"name": "nats-ca", "items": [{"key": "ca.crt", "path": "ca.crt"}], "optional": True}},
    ]
    pods = [*all_of(functions, KSVC), *all_of(functions, DEPLOYMENT)]
    assert len(pods) == 3
    assert {str(mounts(one)["nats-namespace"]) for one in pods} == {str(expected)}
    assert "namespace" in secret_files.LEVELS


def test_what_was_named_is_read_back_off_the_reconcile_that_is_there() -> None:
    objects = wanted(entry(), access=USUAL.with_named(NAMED), annotations=NAMESPACED).objects

    found = children.named_secrets(as_observed(objects))

    assert found == tuple(SecretFile(one.secret, one.key, one.file, optional=True) for one in NAMED)
    assert children.named_secrets(as_observed(wanted(entry(), annotations=NAMESPACED).objects)) == ()
    assert children.named_secrets({}) == ()


def test_the_reconcile_is_found_by_the_little_that_is_known_of_a_channel_that_goes() -> None:
    template = {"nodeSelector": {"disk": "ssd"}}
    whole = wanted(entry(), access=OWN, deploymentSpecTemplate=template)
    bare = manifest.Manifest(metadata=manifest.parse_identity(channel()).metadata)

    found = children.apart(bare, GIVEN, OWN, Cluster(BOTH))

    assert found is not None
    name = the(whole, DEPLOYMENT, "own-reconcile")["metadata"]["name"]
    assert found.url == f"http://{name}.shop.svc.cluster.local"
    assert [one["metadata"]["name"] for one in found.objects] == [name, name]
    assert children.apart(bare, GIVEN, USUAL, Cluster(BOTH)) is None


def test_a_stream_that_the_operator_does_not_see_is_pulled_from_without_end() -> None:
    functions = wanted(
        entry("a"),
        entry("b", "mail"),
        access=OWN,
        elsewhere=True,
        settings={"runtime": "knative", "isolation": "shared", "keda_monitoring": "nats:8222"},
        annotations={"headrace.dev/keda": "true"},
    )

    forwards = all_of(functions, DEPLOYMENT, "forward")
    assert len(forwards) == 2
    assert all(one.pulls for one in functions.forwards.values())
    assert [one for one in functions.objects if one["kind"] == "ScaledObject"] == []
    assert all_of(functions, KSVC, "forward") == []
    assert the(functions, KSVC, "receive")["metadata"]["namespace"] == "shop"
    told = {one.type: one for one in functions.conditions}
    assert (told["WokenByOperator"].reason, told["WokenByOperator"].informative) == ("StreamElsewhere", True)
    assert "another NATS account than HEADRACE_KEDA_ACCOUNT" in told["ScaledByKeda"].message


def test_credentials_of_ones_own_in_the_installations_account_are_woken_as_all_are() -> None:
    functions = wanted(entry(), access=OWN, settings={"runtime": "knative"})

    assert [one.pulls for one in functions.forwards.values()] == [False]
    assert "WokenByOperator" not in {one.type for one in functions.conditions}


def test_a_channel_that_never_made_sense_wants_its_reconcile_all_the_same() -> None:
    metadata = manifest.parse_identity(channel(annotations=NAMESPACED)).metadata

    found = children.remaining(metadata, GIVEN, USUAL, Cluster(BOTH), (), addressed=False)

    assert {one["metadata"]["name"] for one in found.objects} == {"headrace-reconcile-plain"}
