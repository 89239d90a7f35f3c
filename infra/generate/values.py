"""The values of the Helm chart: `values.yaml` with its comments, and `values.schema.json`, from one model.

A misspelt value is an error of `helm install`, since every object of the schema is closed.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo

CHART = Path(__file__).resolve().parents[1] / "chart"
Texts = dict[str, str]
Free = dict[str, Any]


class _Values(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True)


class Image(_Values):
    repository: str = Field("headrace.example/headrace", description="Where you have pushed the image.")
    tag: str = Field("", description="The version of the chart unless given.")
    digest: str = Field(
        "", pattern="^(sha256:[0-9a-f]{64})?$", description="`sha256:…`; wins over the tag, and is the better choice."
    )
    pull_secrets: list[str] = Field(
        [], description="Names of Secrets for its registry, in each namespace with functions."
    )


class Nats(_Values):
    url: str = Field(
        "nats://nats.nats-io.svc.cluster.local:4222",
        description="Servers, comma separated; counts where the ConfigMap says none.",
    )
    config_map: str = Field(
        "config-nats",
        min_length=1,
        description="ConfigMap with eventing-jetstream or eventing-nats; yours, and optional. The proposal's "
        "config-jetstream counts, too (docs/install.md).",
    )
    credentials_secret: str = Field(
        "headrace-nats",
        min_length=1,
        description="Secret with nats.creds, nkey.seed, token, username and password, tls.crt and tls.key, or ca.crt; "
        "yours, and optional. One of its name and -receive, -forward, -reconcile or -operator is that part's own.",
    )


class Token(_Values):
    secret: str = Field("headrace-token", min_length=1, description="Secret with the shared token, key `token`.")
    create: bool = Field(
        True,
        description="Make it once, and keep it over upgrades. Take false where manifests are rendered without a "
        "cluster (GitOps): each rendering would have another token.",
    )


class Placement(_Values):
    node_selector: Texts = Field(
        {}, description="As in a pod; for reconcile as a Knative Service these need its feature flags."
    )
    tolerations: list[Free] = Field([], description="")
    affinity: Free = Field({}, description="")
    priority_class_name: str = Field("", description="")


class Operator(Placement):
    replicas: int = Field(
        1,
        ge=0,
        description="One works; a second takes over from it at once and not after some seconds, and is a pod more at "
        "rest. 0 while another installation has the channels.",
    )
    resources: Free = Field(
        {"requests": {"cpu": "50m", "memory": "96Mi"}, "limits": {"memory": "256Mi"}}, description="Of its container."
    )
    namespaces: list[str] = Field(
        [],
        description="Namespaces with functions of their own, where it may make them (docs/rbac.md). In the release's "
        "own it may.",
    )
    env: Texts = Field({}, description="Further variables, as LOG_LEVEL: debug (docs/operator.md).")


class Reconcile(Placement):
    kind: Literal["auto", "deployment", "knative"] = Field(
        "auto",
        description="knative: it sleeps while no channel changes; needs Knative Serving. auto: that, where the cluster "
        "serves it. Without a cluster (helm template) auto is deployment, unless told by --api-versions "
        "serving.knative.dev/v1.",
    )
    replicas: int = Field(1, ge=1, description="Of the deployment.")
    resources: Free = Field(
        {"requests": {"cpu": "50m", "memory": "96Mi"}, "limits": {"memory": "256Mi"}}, description="Of its container."
    )
    env: Texts = Field({}, description="Further variables, as HEADRACE_CLUSTER: west (README.md).")


class Functions(_Values):
    runtime: Literal["auto", "knative", "deployment"] = Field(
        "auto", description="auto: Knative Services where the cluster serves them."
    )
    isolation: Literal["subscriber", "shared"] = Field(
        "subscriber", description="A forward for each subscriber, or one for all of a scope."
    )
    env: Texts = Field({}, description="Further variables of receive and forward, without white space in the values.")
    host_urls: bool = Field(
        False,
        description="Beside Knative Services, one Deployment of receive for the Go channel's URLs; it runs all the "
        "time.",
    )
    zero_initial_scale: Literal["auto"] | bool = Field(
        "auto",
        description="A forward begins with no pod, once the receive beside it has been ready with the same image and "
        "settings; auto: where Knative has allow-zero-initial-scale.",
    )
    keda_monitoring: str = Field("", description="Host and port of NATS's monitoring, for KEDA to scale Deployments.")


class NetworkPolicies(_Values):
    enabled: bool = Field(
        True,
        description="NetworkPolicies for the pods in the release's namespace: receive takes events from anywhere, the "
        "rest only what its part asks of it (docs/install.md).",
    )
    monitoring: Texts = Field(
        {"headrace.dev/monitoring": "true"}, description="Labels of the namespaces that may read metrics."
    )
    gateways: list[str] = Field(
        ["knative-serving", "kourier-system", "istio-system", "contour-internal"],
        description="Names of the namespaces of Knative Serving and of its gateways.",
    )


class ServiceMonitor(_Values):
    enabled: bool = Field(False, description="ServiceMonitor of the operator and a PodMonitor of all functions.")
    labels: Texts = Field({}, description="That your Prometheus selects by.")
    interval: str = Field("30s", description="")


class Dashboards(_Values):
    enabled: bool = Field(False, description="A ConfigMap for each dashboard, for Grafana's sidecar.")
    labels: Texts = Field({"grafana_dashboard": "1"}, description="That the sidecar selects by.")


class Alerts(_Values):
    enabled: bool = Field(False, description="A PrometheusRule with infra/prometheus/alerts.yaml.")
    labels: Texts = Field({}, description="That your Prometheus selects by.")


class Values(_Values):
    """Values of the chart headrace."""

    image: Image = Field(Image(), description="One image is the operator and all functions.")
    nats: Nats = Field(Nats(), description="Where NATS is, and as whom we come.")
    token: Token = Field(Token(), description="What the operator shows to reconcile and forward.")
    namespaced: bool = Field(
        False, description="Serve the channels of the release's namespace only, with rights in no other."
    )
    operator: Operator = Field(Operator(), description="")
    reconcile: Reconcile = Field(Reconcile(), description="The function that the operator asks about each channel.")
    functions: Functions = Field(Functions(), description="receive and forward, which reconcile answers.")
    network_policies: NetworkPolicies = Field(NetworkPolicies(), description="Who may connect to our pods.")
    service_monitor: ServiceMonitor = Field(ServiceMonitor(), description="For the Prometheus operator.")
    dashboards: Dashboards = Field(Dashboards(), description="")
    alerts: Alerts = Field(Alerts(), description="")


def files() -> dict[Path, str]:
    """By path."""
    return {CHART / "values.yaml": yaml_text(), CHART / "values.schema.json": schema_text()}


def schema() -> dict[str, Any]:
    """JSON Schema (2020-12)."""
    made: dict[str, Any] = _untitled(Values.model_json_schema(by_alias=True))
    # Helm gives every chart that another one depends on these.
    made["properties"]["global"] = {"type": "object"}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}


def schema_text() -> str:
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def yaml_text() -> str:
    head = "# Written by `task manifests` from infra/generate/values.py, with values.schema.json.\n"
    return head + "\n".join(_lines(Values())) + "\n"


def _lines(model: BaseModel, indent: int = 0) -> Iterator[str]:
    space = " " * indent
    for name, field in type(model).model_fields.items():
        yield from _comment(field, indent)
        key, value = field.alias or name, getattr(model, name)
        if isinstance(value, BaseModel):
            yield f"{space}{key}:"
            yield from _lines(value, indent + 2)
        else:
            # Each value is JSON, which is YAML.
            yield f"{space}{key}: {json.dumps(value)}"


def _comment(field: FieldInfo, indent: int) -> Iterator[str]:
    start = " " * indent + "# "
    if field.description:
        yield from textwrap.wrap(field.description, 100, initial_indent=start, subsequent_indent=start)


def _untitled(node: Any) -> Any:
    """Without the titles that pydantic makes of names, and without empty descriptions."""
    if isinstance(node, dict):
        dropped = {"title"} | ({"description"} if node.get("description") == "" else set())
        return {key: _untitled(value) for key, value in node.items() if key not in dropped or isinstance(value, dict)}
    return [_untitled(one) for one in node] if isinstance(node, list) else node
