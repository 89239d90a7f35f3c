"""No pod of a channel is taken for one of the installation: not by a Service, a Deployment or a disruption budget."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.channel.children import MountedFile, NatsMounts
from headrace.core.installation.function_bounds import TEMPLATE_FIELDS, FunctionBounds
from tests.support.functions.channels import entry
from tests.support.functions.children import BOTH, wanted

INFRA = Path(__file__).parents[3] / "infra"
SYSTEM = "knative-eventing"
OWN = NatsMounts().with_credentials("channel", [MountedFile("nats.creds", "nats.creds", secret="theirs")])
# The kind cluster has a port for this very function.
BY_FUNCTION = {"headrace.dev/function": "headrace-receive-plain"}
# Who selects pods to take them for its own; a monitor or a NetworkPolicy may mean those of channels, too.
TAKES = ("Service", "Deployment", "PodDisruptionBudget")
Labels = dict[str, str]


def files() -> Iterator[Path]:
    folders = ("base", "overlays", "components", "chart/templates")
    yield from (file for folder in folders for file in sorted((INFRA / folder).rglob("*.yaml")))
    yield from sorted(INFRA.glob("install*.yaml"))


def documents(file: Path) -> Iterator[dict[str, Any]]:
    # What the chart writes in is no selector of ours.
    text = "\n".join(line for line in file.read_text(encoding="utf-8").split("\n") if "{{" not in line)
    for part in re.split(r"^---$", text, flags=re.M):
        found = yaml.safe_load(part)
        if isinstance(found, dict):
            yield found


def selectors() -> Iterator[tuple[str, Labels]]:
    for file in files():
        for body in documents(file):
            spec = body.get("spec")
            selector = spec.get("selector") if body.get("kind") in TAKES and isinstance(spec, dict) else None
            if isinstance(selector, dict):
                where = f"{file.relative_to(INFRA)}: {body.get('kind')} {(body.get('metadata') or {}).get('name')}"
                yield where, selector.get("matchLabels", selector)


SELECTORS = list(selectors())
keys = st.sampled_from(sorted({key for _, selector in SELECTORS for key in selector} | {"app", "role"}))
values = st.sampled_from(sorted({value for _, selector in SELECTORS for value in selector.values()} | {"x"}))
templates = st.fixed_dictionaries(
    {"labels": st.dictionaries(keys, values)}, optional={"resources": st.just({"limits": {"cpu": 1}})}
)


def test_the_services_of_the_installation_are_found_in_every_form() -> None:
    found = {where for where, _ in SELECTORS}

    assert {
        "base/operator.yaml: Service headrace-operator",
        "overlays/deployment/reconcile.yaml: Service headrace-reconcile",
        "install-deployment.yaml: Service headrace-reconcile",
        "components/kind/receive.yaml: Service headrace-receive-node",
    } <= found
    assert len([where for where in found if where.startswith("chart/templates/")]) >= 4


@settings(max_examples=150, deadline=None)
@given(
    template=templates,
    namespace=st.sampled_from([SYSTEM, "shop"]),
    scope=st.sampled_from(["cluster", "namespace"]),
    runtime=st.sampled_from(["knative", "deployment"]),
    isolation=st.sampled_from(["subscriber", "shared"]),
    access=st.sampled_from([None, OWN]),
    opened=st.sampled_from([frozenset(), frozenset(TEMPLATE_FIELDS)]),
    host_urls=st.booleans(),
)
def test_no_pod_of_a_channel_matches_what_the_installation_selects(
    template: dict[str, Any],
    namespace: str,
    scope: str,
    runtime: str,
    isolation: str,
    access: NatsMounts | None,
    opened: frozenset[str],
    host_urls: bool,
) -> None:
    functions = wanted(
        entry(),
        namespace=namespace,
        annotations={"eventing.knative.dev/scope": scope},
        access=access,
        apis=BOTH,
        settings={"runtime": runtime, "isolation": isolation, "host_urls": host_urls},
        bounds=FunctionBounds(template=opened),
        deploymentSpecTemplate=template,
    )

    assert functions.objects
    for one in functions.objects:
        if (pods := one["spec"].get("template") if "spec" in one else None) is None:
            continue
        labels = pods["metadata"]["labels"]
        for where, selector in SELECTORS:
            named = selector == BY_FUNCTION and one["metadata"]["name"] == BY_FUNCTION["headrace.dev/function"]
            assert named or not selector.items() <= labels.items(), (where, one["metadata"]["name"], labels)
