"""Validated settings as values; reads nothing itself.

`headrace.io.process.environment` fills these from environment variables, named in each field's `alias`. The tables of
docs/settings.md are generated from this module.
Over 400 lines because every setting is here, and the tables of them are read off this one module.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, model_validator

from headrace.core import duration
from headrace.core.errors import InvalidSpec
from headrace.core.installation.secret_files import INBOX_PREFIX

if TYPE_CHECKING:
    # It brings YAML, which most processes have no need of.
    from headrace.core.installation.config_maps import NatsConfig

MIB = 1024 * 1024
_IDENTITY = ("creds_file", "nkey_seed_file", "user", "password", "token")


def _span(value: object) -> object:
    """A time span as people write it: `PT5S`, `5s`, or plain seconds."""
    if not isinstance(value, str):
        return value
    read = duration.from_iso if value.startswith("P") else duration.from_go
    try:
        if value.replace(".", "", 1).isdecimal():
            return timedelta(seconds=float(value))
        return read(value, field="it")
    except (InvalidSpec, OverflowError):
        raise ValueError("give a time span, as PT5S or 5s") from None


Span = Annotated[timedelta, BeforeValidator(_span)]


def _variables(value: object) -> object:
    """`NAME=value` pairs with white space between them."""
    if not isinstance(value, str):
        return value
    pairs = [word.partition("=") for word in value.split()]
    if not all(found and _VARIABLE.fullmatch(name) for name, found, _ in pairs):
        raise ValueError("give NAME=value, with spaces between several")
    return tuple((name, text) for name, _, text in pairs)


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
Variables = Annotated[tuple[tuple[str, str], ...], BeforeValidator(_variables)]


def _url(value: str) -> str:
    """Without a slash at its end."""
    if not value.startswith(("http://", "https://")) or not value.partition("://")[2].strip("/"):
        raise ValueError("give a URL, as http://reconcile.knative-eventing.svc.cluster.local")
    return value.rstrip("/")


Url = Annotated[str, AfterValidator(_url)]


class _Settings(BaseModel):
    # Built at first use: a process that starts from zero needs only its own settings.
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, defer_build=True)


class NatsSettings(_Settings):
    """How to reach NATS. Files are read again at each connect, so rotated secrets take effect by themselves; what is in
    the mounted directories is looked at between connects, too."""

    url: str = Field("nats://127.0.0.1:4222", alias="NATS_URL", description="servers, comma separated")
    client: Literal["engine", "nats-py"] = Field(
        "engine", alias="NATS_CLIENT", description="`engine`, or `nats-py` as the fallback"
    )
    creds_file: str | None = Field(None, alias="NATS_CREDS_FILE", description="credentials file (JWT and nkey seed)")
    nkey_seed_file: str | None = Field(None, alias="NATS_NKEY_SEED_FILE", description="nkey seed file")
    user: str | None = Field(None, alias="NATS_USER", description="user name, with `NATS_PASSWORD`")
    password: SecretStr | None = Field(None, alias="NATS_PASSWORD", description="password")
    token: SecretStr | None = Field(None, alias="NATS_TOKEN", description="authentication token")
    tls_ca_file: str | None = Field(None, alias="NATS_TLS_CA_FILE", description="PEM file of the CA to trust")
    tls_cert_file: str | None = Field(None, alias="NATS_TLS_CERT_FILE", description="client certificate, PEM")
    tls_key_file: str | None = Field(None, alias="NATS_TLS_KEY_FILE", description="its key, PEM")
    tls_ca: str | None = Field(None, alias="NATS_TLS_CA", description="PEM of a CA to trust, in place of a file")
    tls_first: bool = Field(False, alias="NATS_TLS_FIRST", description="TLS before INFO (handshake_first)")
    inbox_prefix: Annotated[str, Field(pattern=INBOX_PREFIX)] = Field(
        "_INBOX", alias="NATS_INBOX_PREFIX", description="where answers come, so that permissions can keep users apart"
    )
    function_inbox_prefix: Annotated[str, Field(pattern=INBOX_PREFIX)] | None = Field(
        None,
        alias="NATS_FUNCTION_INBOX_PREFIX",
        description="the same, while the credentials in use are this function's alone (folders `…-function` below)",
    )
    config_dir: str | None = Field(
        None,
        alias="NATS_CONFIG_DIR",
        description="where ConfigMaps are mounted that say how NATS is reached: in the folder `named` the one that "
        "`NATS_CONFIG_NAME` names, in `proposed` the proposal's `config-jetstream`, in `defaults` "
        "`config-ch-jetstream-defaults`; or one alone, without a folder. What the one that counts (docs/install.md) "
        "says wins over the variables, and an edit takes effect within seconds",
    )
    config_name: str | None = Field(
        None,
        alias="NATS_CONFIG_NAME",
        description="name of the ConfigMap in the folder `named`",
    )
    credentials_dir: str | None = Field(
        None,
        alias="NATS_CREDENTIALS_DIR",
        description="Secrets, mounted, in folders `channel-function`, `channel`, `namespace`, `cluster-function`, "
        "`cluster`: the first that has something counts. They win over the variables, and a rotation takes effect "
        "within seconds",
    )

    @model_validator(mode="after")
    def _one_identity(self) -> NatsSettings:
        given = [
            name
            for name, value in (
                ("NATS_CREDS_FILE", self.creds_file),
                ("NATS_NKEY_SEED_FILE", self.nkey_seed_file),
                ("NATS_USER", self.user),
                ("NATS_TOKEN", self.token),
            )
            if value
        ]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} are set: give one way to authenticate")
        if bool(self.tls_cert_file) != bool(self.tls_key_file):
            raise ValueError("NATS_TLS_CERT_FILE and NATS_TLS_KEY_FILE go together: set both or neither")
        if self.user and self.password is None:
            raise ValueError("NATS_USER is set without NATS_PASSWORD: set both")
        return self

    def overridden(self, config: NatsConfig | None, secrets: Mapping[str, Any]) -> NatsSettings:
        """With what is mounted.

        Args:
            config: of the ConfigMap, if there is one.
            secrets: as `headrace.core.installation.secret_files.settings` gives them; an identity among them replaces
                ours whole.
        """
        update: dict[str, Any] = {}
        if config is not None:
            update = {"url": config.url or self.url, "tls_first": config.tls_first or self.tls_first}
            if config.ca_bundle:
                update |= {"tls_ca": config.ca_bundle, "tls_ca_file": None}
        if secrets.keys() & set(_IDENTITY):
            update |= dict.fromkeys(_IDENTITY)
        return self.model_copy(update=update | dict(secrets))


class MetricsSettings(_Settings):
    """Where a function tells of itself."""

    port: int | None = Field(
        None,
        alias="METRICS_PORT",
        description="port on which a function serves `/metrics` for Prometheus, all workers together; unset: "
        "nowhere. 9464 in the image. Not under functions-framework",
        ge=1,
        le=65535,
    )
    host: str = Field(
        "",
        alias="METRICS_HOST",
        description="address on which `/metrics` is served; unset: that of events",
    )


class TracingSettings(_Settings):
    """Whether spans are made; all else about them is the OpenTelemetry SDK's own to read."""

    endpoint: str | None = Field(
        None,
        alias="OTEL_EXPORTER_OTLP_ENDPOINT",
        description="OTLP/HTTP collector that gets traces, as `http://collector:4318`; unset: none are made. Needs the "
        "extra `tracing`; the SDK reads its other variables itself, as `OTEL_TRACES_SAMPLER`",
    )


class ReceiveSettings(_Settings):
    """Limits of `receive`."""

    publish_timeout: Span = Field(
        timedelta(seconds=5),
        alias="RECEIVE_PUBLISH_TIMEOUT",
        description="how long to try to store an event, over NATS restarts, before answering 503",
        gt=timedelta(),
    )
    wake_interval: Span = Field(
        timedelta(milliseconds=50),
        alias="RECEIVE_WAKE_INTERVAL",
        description="least time between two wake hints of one stream",
    )
    max_waiting_bytes: Annotated[int, Field(ge=MIB)] = Field(
        64 * MIB,
        alias="RECEIVE_MAX_WAITING_BYTES",
        description="bytes held for events that are on their way in or that NATS has not acknowledged, headers and "
        "8 KiB for each of the latter included; beyond that 503 at once",
    )
    workers: int | None = Field(
        None,
        alias="RECEIVE_WORKERS",
        description="processes that serve, each with limits and a connection of its own; by default the CPU limit of "
        "the container, rounded up, or without one the CPUs, up to 4. Under functions-framework its server has workers",
        ge=1,
        le=256,
    )


class ForwardSettings(_Settings):
    """Limits of `forward`."""

    max_in_flight: int = Field(
        100, alias="FORWARD_MAX_IN_FLIGHT", description="events in subscribers' hands per lease", ge=1, le=10_000
    )
    max_in_flight_bytes: int = Field(
        16 * MIB, alias="FORWARD_MAX_IN_FLIGHT_BYTES", description="bytes of those events per lease", ge=64 * 1024
    )
    max_process_bytes: int = Field(
        32 * MIB,
        alias="FORWARD_MAX_PROCESS_BYTES",
        description="bytes of events that all leases of a process hold or have asked for; nats-server drops a "
        "connection for which more than 64 MiB wait",
        ge=64 * 1024,
    )
    max_answer_bytes: int = Field(
        MIB, alias="FORWARD_MAX_ANSWER_BYTES", description="largest answer that is read as a reply event", ge=1024
    )
    consumers: str = Field(
        "",
        alias="FORWARD_CONSUMERS",
        description="consumers to pull for without end, as `<stream>/<consumer>`, spaces between several; unset: only "
        "while others hold leases",
    )


class TokenSettings(_Settings):
    """The shared token that callers of `forward` and `reconcile` must show."""

    token: SecretStr | None = Field(None, alias="HEADRACE_TOKEN", description="the shared token itself")
    token_file: str | None = Field(
        None, alias="HEADRACE_TOKEN_FILE", description="mounted file that holds it; read at each call"
    )
    caller_digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = Field(
        None,
        alias="HEADRACE_CALLER_DIGEST",
        description="in the place of the token: SHA-256 of what callers show to this one function, as `reconcile` "
        "gives it to those that it answers (ADR 030)",
    )


class DeliverySettings(_Settings):
    """How `receive` knows what `forward` delivers."""

    delivery_key: SecretStr | None = Field(
        None,
        alias="HEADRACE_DELIVERY_KEY",
        description="64 hex digits, the same for all functions that deliver to one another: by it a channel tells "
        "`forward`'s deliveries from repeats of its producers (ADR 044). `reconcile` gives it to the functions that "
        "it answers; elsewhere it follows from the shared token, where a function has that; without either no "
        "claim is made or believed",
    )


class FunctionsSettings(_Settings):
    """What the functions of channels look like, which `reconcile` answers as children of the hook."""

    image: str | None = Field(
        None,
        alias="HEADRACE_IMAGE",
        description="image of the functions, best with its digest; unset: no functions are answered, as on a laptop",
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
        "image and settings; `auto`: where Knative's `config-autoscaler` has `allow-zero-initial-scale`, without "
        "which it refuses that",
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
        description="ConfigMap that is mounted for the functions in their `NATS_CONFIG_DIR`, where it is there, beside "
        "`config-jetstream`",
    )
    creds_secret: str | None = Field(
        None,
        alias="HEADRACE_NATS_CREDS_SECRET",
        description="Secret that is mounted for the functions in their `NATS_CREDENTIALS_DIR`, where it is there: keys "
        "`nats.creds`, `nkey.seed`, `token`, `username` and `password`, `tls.crt` and `tls.key`, `ca.crt`",
    )
    keda_monitoring: str | None = Field(
        None,
        alias="HEADRACE_KEDA_MONITORING",
        description="host and port of NATS's monitoring, with https:// if it is that, for KEDA's `nats-jetstream` "
        "scaler; unset: no ScaledObjects",
    )
    keda_account: str = Field(
        "$G", alias="HEADRACE_KEDA_ACCOUNT", description="NATS account of the streams, for the same scaler"
    )


class ReconcileSettings(FunctionsSettings):
    """What `reconcile` must know of its surroundings."""

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
        description="ConfigMap `config-ch-jetstream-defaults`, mounted; read at each call",
    )
    address: str | None = Field(
        None,
        alias="HEADRACE_ADDRESS",
        description="base URL for path addresses in status; unset: the channel's Service host",
    )


class KubeSettings(_Settings):
    """Where the API server is; in a pod its service account says so. Files are read again when they change."""

    kubeconfig: str | None = Field(None, alias="KUBECONFIG", description="a kubeconfig; unset: the service account")
    host: str | None = Field(None, alias="KUBERNETES_SERVICE_HOST", description="set by Kubernetes in every pod")
    port: int = Field(
        443, alias="KUBERNETES_SERVICE_PORT", description="set by Kubernetes in every pod", ge=1, le=65535
    )


class OperatorSettings(_Settings):
    """What the operator must know."""

    hook: Url = Field(alias="HOOK_URL", description="base URL of `reconcile`")
    hook_workload: Annotated[str, Field(pattern=r"^[a-z0-9-]+/[a-z0-9.-]+$")] | None = Field(
        None,
        alias="HOOK_WORKLOAD",
        description="the Deployment or Knative Service that runs it, as `<namespace>/<name>`: once that was replaced, "
        "every channel is looked at; unset: by the host of `HOOK_URL`, which is of the same name",
    )
    forward: Url | None = Field(
        None, alias="FORWARD_URL", description="`forward` for consumers whose status names none"
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
        16,
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
        description="how often all streams are looked at, for what no wake hint has told",
        ge=timedelta(seconds=1),
    )
    superseded: str = Field(
        "",
        alias="OPERATOR_SUPERSEDED",
        description="what an installation of another kind has left in the operator's namespace, as "
        "`Deployment.apps/v1/headrace-reconcile`: deleted once `reconcile` at `HOOK_URL` has answered",
    )
    host: str = Field("0.0.0.0", alias="HOST", description="address of the probes and metrics")
    port: int = Field(8080, alias="PORT", description="port of `/healthz`, `/readyz` and `/metrics`", ge=0, le=65535)
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", alias="LOG_LEVEL", description="what is logged"
    )
    log_format: Literal["json", "plain"] = Field("json", alias="LOG_FORMAT", description="`plain` is for people")
