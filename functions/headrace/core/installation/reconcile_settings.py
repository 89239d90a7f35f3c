"""The settings of `reconcile`, above all the looks of the functions that it answers as children."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from pydantic import Field

from headrace.core.installation.setting_types import Settings, Span, Variables


class FunctionsSettings(Settings):
    """What the functions of channels look like, which `reconcile` answers as children of the hook."""

    image: str | None = Field(
        None,
        alias="HEADRACE_IMAGE",
        description="image of the functions, best with its digest; unset: no functions are made, as on a laptop",
    )
    system_namespace: str = Field(
        "knative-eventing", alias="SYSTEM_NAMESPACE", description="where the functions of cluster-scoped channels run"
    )
    runtime: Literal["auto", "knative", "deployment"] = Field(
        "auto",
        alias="HEADRACE_RUNTIME",
        description="`knative`, `deployment`, or `auto`: `knative` where the cluster serves `serving.knative.dev/v1`; "
        "the annotation `headrace.dev/runtime` overrules",
    )
    isolation: Literal["subscriber", "shared"] = Field(
        "subscriber",
        alias="HEADRACE_ISOLATION",
        description="a `forward` for each subscriber, or one for all of a scope; the annotation overrules",
    )
    leases_per_pod: int = Field(
        10, alias="HEADRACE_LEASES_PER_POD", description="leases that a pod of a shared `forward` holds", ge=1, le=1000
    )
    shared_max_scale: int = Field(
        10, alias="HEADRACE_SHARED_MAX_SCALE", description="pods that a shared `forward` may have", ge=1
    )
    zero_initial_scale: Literal["auto"] | bool = Field(
        "auto",
        alias="HEADRACE_ZERO_INITIAL_SCALE",
        description="`true`: a `forward` begins with no pod, once the `receive` beside it has been ready with the same "
        "image and settings; `auto`: so where Knative's `config-autoscaler` has `allow-zero-initial-scale`, "
        "without which Knative refuses it",
    )
    host_urls: bool = Field(
        False,
        alias="HEADRACE_HOST_URLS",
        description="beside Knative Services, one Deployment of `receive`, which runs all the time, for the Go "
        "channel's URLs `http://<name>-kn-jsm-channel.<namespace>.svc…`",
    )
    service_account: str | None = Field(
        None, alias="HEADRACE_SERVICE_ACCOUNT", description="service account of the functions; unset: `default`"
    )
    pull_secrets: str = Field(
        "", alias="HEADRACE_PULL_SECRETS", description="Secrets for the registry of the image, comma separated"
    )
    functions_env: Variables = Field(
        (),
        alias="HEADRACE_FUNCTIONS_ENV",
        description="further variables of the functions, as `LOG_LEVEL=debug FORWARD_MAX_IN_FLIGHT=20`",
    )
    functions_nats_url: str | None = Field(
        None, alias="HEADRACE_FUNCTIONS_NATS_URL", description="`NATS_URL` of the functions; unset: that of `reconcile`"
    )
    nats_config_map: str | None = Field(
        None,
        alias="HEADRACE_NATS_CONFIG_MAP",
        description="ConfigMap that is mounted for the functions in their `NATS_CONFIG_DIR`, if it exists, beside "
        "`config-jetstream`",
    )
    creds_secret: str | None = Field(
        None,
        alias="HEADRACE_NATS_CREDS_SECRET",
        description="Secret that is mounted for the functions in their `NATS_CREDENTIALS_DIR`, if it exists: keys "
        "`nats.creds`, `nkey.seed`, `token`, `username` and `password`, `tls.crt` and `tls.key`, `ca.crt`",
    )
    keda_monitoring: str | None = Field(
        None,
        alias="HEADRACE_KEDA_MONITORING",
        description="host and port of NATS's monitoring, with https:// where it has TLS, for KEDA's `nats-jetstream` "
        "scaler; unset: no ScaledObjects",
    )
    keda_account: str = Field(
        "$G", alias="HEADRACE_KEDA_ACCOUNT", description="NATS account of the streams, for the same scaler"
    )


class ReconcileSettings(FunctionsSettings):
    """The settings that `reconcile` needs."""

    cluster: str = Field(
        "default", alias="HEADRACE_CLUSTER", description="id of the cluster, part of a stream's ownership"
    )
    domain: str = Field("cluster.local", alias="HEADRACE_CLUSTER_DOMAIN", description="DNS domain of Services")
    gone_grace: Span = Field(
        timedelta(seconds=60),
        alias="RECONCILE_GONE_GRACE",
        description="how long a consumer outlives its Subscription entry",
        ge=timedelta(),
    )
    orphan_grace: Span = Field(
        timedelta(minutes=10),
        alias="RECONCILE_ORPHAN_GRACE",
        description="how long a channel that is deleted waits for credentials that NATS takes, before it leaves its "
        "stream behind",
        ge=timedelta(),
    )
    defaults_dir: str | None = Field(
        None,
        alias="HEADRACE_DEFAULTS_DIR",
        description="ConfigMap `config-ch-jetstream-defaults`, mounted: the defaults of channels, and the list of "
        "tenants; read at each call",
    )
    error_data: bool = Field(
        True,
        alias="HEADRACE_ERROR_DATA",
        description="whether dead letters, parked events, stage records and logs tell what an address answered, beside "
        "its status; `false`: only for namespaces whose entry in the list of tenants says `errorData: true`",
    )
    names: Literal["listed", "any"] = Field(
        "listed",
        alias="HEADRACE_NAMES",
        description="`listed`: a channel names subjects and streams of its own namespace, and those that the list of "
        "tenants opens to it; `any`: whatever its author writes, where all namespaces have one owner (ADR 050). "
        "`headrace up` sets `any`",
    )
    address: str | None = Field(
        None,
        alias="HEADRACE_ADDRESS",
        description="base URL for path addresses in status; unset: the channel's Service host",
    )
