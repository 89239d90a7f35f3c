"""The settings of the operator."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field

from headrace.core.installation.setting_types import Settings, Span, Url

WORKERS = 16
"""Channels that are reconciled at the same time, unless the operator is told otherwise."""


class KubeSettings(Settings):
    """Where the API server is; in a pod its service account says so. Files are read again when they change."""

    kubeconfig: str | None = Field(None, alias="KUBECONFIG", description="a kubeconfig; unset: the service account")
    host: str | None = Field(None, alias="KUBERNETES_SERVICE_HOST", description="set by Kubernetes in every pod")
    port: int = Field(
        443, alias="KUBERNETES_SERVICE_PORT", description="set by Kubernetes in every pod", ge=1, le=65535
    )


class OperatorSettings(Settings):
    """The settings that the operator needs."""

    hook: Url = Field(alias="HOOK_URL", description="base URL of `reconcile`")
    hook_workload: Annotated[str, Field(pattern=r"^[a-z0-9-]+/[a-z0-9.-]+$")] | None = Field(
        None,
        alias="HOOK_WORKLOAD",
        description="the Deployment or Knative Service of `reconcile`, as `<namespace>/<name>`: once it is replaced, "
        "every channel is looked at; unset: the one with the name in the host of `HOOK_URL`",
    )
    forward: Url | None = Field(
        None, alias="FORWARD_URL", description="`forward` for consumers for which `reconcile` names none"
    )
    namespace: str | None = Field(
        None, alias="WATCH_NAMESPACE", description="serve the channels of this namespace only; unset: of all"
    )
    identity: str | None = Field(
        None, alias="POD_NAME", description="name in the Lease; unset: the host's name and something random"
    )
    lease_namespace: str | None = Field(
        None, alias="POD_NAMESPACE", description="where the Lease is; unset: where the service account or kubeconfig is"
    )
    lease_name: str = Field("headrace-operator", alias="OPERATOR_LEASE", description="name of the Lease")
    lease_duration: Span = Field(
        timedelta(seconds=15),
        alias="OPERATOR_LEASE_DURATION",
        description="how long the others wait for a leader that is silent; it renews three times as often",
        ge=timedelta(seconds=3),
    )
    workers: int = Field(
        WORKERS,
        alias="OPERATOR_WORKERS",
        description="channels that are reconciled at the same time; of one namespace half as many, if all are served",
        ge=1,
        le=256,
    )
    resync: Span = Field(
        timedelta(hours=1),
        alias="OPERATOR_RESYNC",
        description="how often every channel is reconciled though nothing changed; all at once, since `reconcile` "
        "sleeps in between",
        ge=timedelta(minutes=1),
    )
    sweep: Span = Field(
        timedelta(seconds=15),
        alias="OPERATOR_SWEEP",
        description="how often all streams are looked at, for events without a wake hint",
        ge=timedelta(seconds=1),
    )
    event_types: int = Field(
        500,
        alias="OPERATOR_EVENT_TYPES",
        description="most EventTypes of one channel, where `eventtype-auto-create` is enabled: kinds of events beyond "
        "them get none",
        ge=1,
    )
    superseded: str = Field(
        "",
        alias="OPERATOR_SUPERSEDED",
        description="leftovers of an installation of another kind in the operator's namespace, as "
        "`Deployment.apps/v1/headrace-reconcile`: deleted once `reconcile` at `HOOK_URL` has answered",
    )
    host: str = Field("0.0.0.0", alias="HOST", description="address of the probes and metrics")
    port: int = Field(8080, alias="PORT", description="port of `/healthz`, `/readyz` and `/metrics`", ge=0, le=65535)
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", alias="LOG_LEVEL", description="what is logged"
    )
    log_format: Literal["json", "plain"] = Field("json", alias="LOG_FORMAT", description="`plain` is for people")
