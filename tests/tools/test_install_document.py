"""The commands of docs/install.md, word for word, with the real tools on a real API server; and NATS asked for real."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from infra.programs import tool_binaries
from tests.support.kube.control_plane import ControlPlane
from tests.support.kube.install import DOCUMENT, INFRA, ROOT, blocks
from tests.support.nats.nats_server import NatsServer, free_port
from tests.support.programs.page import CHANNEL, Shell, channel_commands, of, run_section

NEIGHBOURS = ROOT / "tests/control_plane/crds/neighbours.yaml"
OURS = (
    "deployments,services,services.serving.knative.dev,serviceaccounts,roles,rolebindings,poddisruptionbudgets,"
    "networkpolicies,"
    "clusterroles,clusterrolebindings"
)
ORDERS = """
apiVersion: messaging.knative.dev/v1alpha1
kind: NatsJetStreamChannel
metadata: {name: orders, namespace: shop}
"""
# As little of Metacontroller's as a CompositeController needs to be stored.
COMPOSITE = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: compositecontrollers.metacontroller.k8s.io
  annotations: {api-approved.kubernetes.io: unapproved}
spec:
  group: metacontroller.k8s.io
  scope: Cluster
  names: {kind: CompositeController, plural: compositecontrollers, singular: compositecontroller}
  versions:
    - name: v1alpha1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""
STREAMS = "streams"


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """On a cluster that has the neighbours' kinds and the namespace of Knative Eventing."""
    control_plane = ControlPlane(tmp_path / "control-plane")
    control_plane.start()
    try:
        run = Shell(tmp_path, control_plane.kubeconfig)
        run("kubectl create namespace knative-eventing; kubectl create namespace knative-serving")
        run(f"kubectl apply --server-side -f {NEIGHBOURS}")
        yield run
    finally:
        control_plane.stop()


def left(shell: Shell) -> list[str]:
    """What is ours in the cluster."""
    selection = "-A -l app.kubernetes.io/name=headrace -o name"
    return shell(f"kubectl get {OURS} {selection}; kubectl get crd -o name | grep natsjetstream || true").split()


def token(shell: Shell) -> str:
    return shell("kubectl -n knative-eventing get secret headrace-token -o jsonpath='{.data.token}'")


def test_every_block_that_is_to_be_run_is_run_by_a_test_here() -> None:
    marked = {block.section for block in blocks() if block.about == "run"}
    with_metacontroller = "With a stock Metacontroller"
    others = {"kubectl", "kustomize", "Who may connect", "Helm", "Knative's default channel", "Upgrade", "Uninstall"}
    assert marked == {with_metacontroller, *others}
    # Those of func are run by test_func.py, these in a cluster with pods.
    elsewhere = ("func ", "makers", "aside")
    ours = {block.about for block in blocks() if not block.about.startswith(elsewhere)}
    assert ours == {"", "run", CHANNEL, STREAMS, "mine/kustomization.yaml", "shop/kustomization.yaml"}
    func = {"func config", "func run", "func invoke", "func deploy"}
    assert {block.about for block in blocks()} - ours == {*func, "makers", "aside"}


def test_by_kubectl_in_and_out_again(shell: Shell) -> None:
    by_kubectl = next(block.text for block in of("Uninstall") if block.about == "run")
    run_section(shell, "kubectl")
    image = shell(
        "kubectl -n knative-eventing get services.serving.knative.dev headrace-hook -o jsonpath="
        """'{.spec.template.spec.containers[0].env[?(@.name=="HEADRACE_IMAGE")].value}'"""
    )
    assert image.startswith("registry.example/headrace@sha256:0")
    run_section(shell, "Upgrade")
    for sample in ("default-ch-webhook", "config-br-default-channel"):
        shell(f"kubectl -n knative-eventing create configmap {sample}")
    run_section(shell, "Knative's default channel")
    shell(f"kubectl create namespace shop; echo '{ORDERS}' | kubectl apply -f -")
    retained = "kubectl -n shop get natsjetstreamchannels -o jsonpath='{.items[*].metadata.annotations}'"
    annotate, delete = channel_commands()
    shell(annotate)
    assert '"headrace.dev/retain":"true"' in shell(retained)
    shell(delete)
    assert shell("kubectl get natsjetstreamchannels --all-namespaces -o name") == ""
    assert len(left(shell)) > 10

    shell(by_kubectl)

    assert left(shell) == []
    # What users have made is theirs.
    assert shell("kubectl -n knative-eventing get configmap config-nats -o name").strip() == "configmap/config-nats"


def test_without_knative_serving_kubectl_says_which_file_is_needed_and_that_one_mends_it(shell: Shell) -> None:
    shell("kubectl delete crd services.serving.knative.dev; kubectl delete namespace knative-serving")
    (words,) = [line for line in DOCUMENT.read_text(encoding="utf-8").splitlines() if "says `no matches for" in line]
    said = shell("kubectl apply --server-side -f infra/install.yaml 2>&1 || true")
    assert words.partition("says `")[2].partition("`")[0] in said
    shell("kubectl apply --server-side -f infra/install-deployment.yaml")
    url = '{.spec.template.spec.containers[0].env[?(@.name=="HOOK_URL")].value}'
    get = "kubectl -n knative-eventing get deployment"
    assert shell(f"{get} headrace-operator -o jsonpath='{url}'") == "http://headrace-reconcile.knative-eventing.svc"
    assert "headrace-reconcile" in shell(f"{get} -o name")


def test_by_kustomize_the_image_is_the_users_everywhere(shell: Shell) -> None:
    run_section(shell, "kustomize")
    programs = shell("kubectl -n knative-eventing get deployments,services.serving.knative.dev -o yaml")
    assert programs.count("registry.example/headrace:0.1.0") == 3
    assert "headrace.example" not in programs


def test_by_kustomize_as_deployments_it_is_the_users_too(tmp_path: Path) -> None:
    (mine,) = [block.text for block in of("kustomize") if block.kind == "yaml"]
    told = "{kind: Deployment, name: headrace-reconcile}"
    assert f"is `{told}`" in DOCUMENT.read_text(encoding="utf-8")
    mine = mine.replace("../infra/base", "../infra/overlays/deployment")
    mine = mine.replace("select: {group: serving.knative.dev, kind: Service, name: headrace-hook}", f"select: {told}")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "kustomization.yaml").write_text(mine, encoding="utf-8")
    shutil.copytree(INFRA, tmp_path / "infra")
    kustomize = tool_binaries.found(tool_binaries.KUSTOMIZE)["kustomize"]
    built = subprocess.run([kustomize, "build", tmp_path / "mine"], capture_output=True, text=True, timeout=60)
    assert built.stdout.count("registry.example/headrace:0.1.0") == 3, built.stderr
    assert "headrace.example" not in built.stdout


def test_the_namespace_of_a_prometheus_is_labelled_and_a_namespace_gets_the_policies(shell: Shell) -> None:
    shell("kubectl create namespace monitoring; kubectl create namespace shop")
    run_section(shell, "Who may connect")
    assert len(shell("kubectl -n shop get networkpolicies -o name").split()) == 5
    assert "monitoring" in shell("kubectl get namespaces -l headrace.dev/monitoring=true -o name")


def test_with_a_metacontroller_it_has_the_token_and_there_is_no_operator(shell: Shell) -> None:
    shell(f"echo '{COMPOSITE}' | kubectl apply -f -")
    shell("kubectl wait --for=condition=Established crd/compositecontrollers.metacontroller.k8s.io --timeout=60s")
    run_section(shell, "With a stock Metacontroller")
    found = json.loads(shell("kubectl get compositecontrollers headrace -o json"))["spec"]["hooks"]
    shown = {urlsplit(one["webhook"]["url"]).password for one in found.values()}
    assert shown == {base64.b64decode(token(shell)).decode()}
    deployments = shell("kubectl -n knative-eventing get deployments -o yaml")
    assert "headrace.example" not in deployments
    assert "headrace-operator" not in deployments


def test_by_helm_in_and_out_again_with_one_token_for_ever(shell: Shell) -> None:
    install, uninstall = of("Helm")[0].text.rsplit("helm upgrade", 1), of("Uninstall")[-1].text
    shell(install[0])
    first = token(shell)
    assert len(first) > 40
    notes = shell("helm upgrade" + install[1])
    assert "BEFORE YOU UNINSTALL" in notes
    assert token(shell) == first

    shell(uninstall)

    assert left(shell) == []
    assert "headrace-token" not in shell("kubectl -n knative-eventing get secrets -o name")


def test_helm_leaves_a_token_that_somebody_else_has_made(shell: Shell) -> None:
    shell("kubectl -n knative-eventing create secret generic headrace-token --from-literal=token=mine")
    shell("helm install headrace infra/chart -n knative-eventing && helm uninstall headrace -n knative-eventing")
    assert token(shell) == "bWluZQ=="


def test_streams_that_hold_data_are_listed(tmp_path: Path) -> None:
    (block,) = [block for block in blocks() if block.about == STREAMS]
    monitor = free_port()
    server = NatsServer(tmp_path / "nats", config=f"http_port: {monitor}").start()
    try:
        subprocess.run([sys.executable, "-c", _PUBLISH, server.url], check=True, timeout=60)
        command = block.text.replace("127.0.0.1:8222", f"127.0.0.1:{monitor}")
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", command], capture_output=True, text=True, timeout=60)
    finally:
        server.kill()
    assert (done.stdout, done.returncode) == ("$G KN_SHOP__ORDERS 2 messages\n", 0), done.stderr


_PUBLISH = """
import asyncio, sys, nats
async def main():
    client = await nats.connect(sys.argv[1])
    stream = client.jetstream()
    for name in ("KN_SHOP__ORDERS", "KN_SHOP__EMPTY", "OTHER"):
        await stream.add_stream(name=name, subjects=[name])
    for name in ("KN_SHOP__ORDERS", "KN_SHOP__ORDERS", "OTHER"):
        await stream.publish(name, b"x")
    await client.close()
asyncio.run(main())
"""
