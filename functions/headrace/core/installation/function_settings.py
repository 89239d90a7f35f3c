"""The settings of `receive` and `forward`, and those that all functions have in common."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field, SecretStr

from headrace.core.installation.setting_types import MIB, Names, Networks, Settings, Span


class MetricsSettings(Settings):
    """Where a function tells of itself."""

    port: int | None = Field(
        None,
        alias="METRICS_PORT",
        description="port on which a function serves `/metrics` for Prometheus; unset: "
        "nowhere. 9464 in the image. Not under functions-framework",
        ge=1,
        le=65535,
    )
    host: str = Field(
        "",
        alias="METRICS_HOST",
        description="address on which `/metrics` is served; unset: that of events",
    )


class ConnectionSettings(Settings):
    """How many clients a function takes."""

    most: int | None = Field(
        None,
        alias="HEADRACE_MAX_CONNECTIONS",
        description="connections of clients at once; for one more, the one that has been idle longest is closed. "
        "Unset: three quarters of the files that the process may have open, one for each 20 KiB of its memory limit, "
        "or 20,000, whichever is least. Not under functions-framework",
        ge=16,
    )


class TracingSettings(Settings):
    """Whether spans are made; all else about them is the OpenTelemetry SDK's own to read."""

    endpoint: str | None = Field(
        None,
        alias="OTEL_EXPORTER_OTLP_ENDPOINT",
        description="OTLP/HTTP collector that gets traces, as `http://collector:4318`; unset: none are made. Needs the "
        "extra `tracing`; the SDK itself reads its other variables, such as `OTEL_TRACES_SAMPLER`",
    )


class ReceiveSettings(Settings):
    """Limits of `receive`, and the addresses that lead to channels (ADR 054)."""

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
        description="bytes held for events: those that are still coming in, and those that NATS has not acknowledged, "
        "each of these with its headers and 8 KiB more; beyond that the answer is 503 at once",
    )
    domain: str = Field(
        "cluster.local",
        alias="HEADRACE_CLUSTER_DOMAIN",
        description="DNS domain of Services: `receive` takes `<name>-kn-jsm-channel.<namespace>.svc` with it and "
        "without; `reconcile` gives it to the functions that it makes",
    )
    host_addresses: bool = Field(
        True,
        alias="RECEIVE_HOST_ADDRESSES",
        description="`false`: a Host names no channel, and only paths count. `reconcile` sets it so in Knative "
        "Services, where any caller can set the Host by K-Original-Host",
    )
    hosts: Names = Field(
        (),
        alias="RECEIVE_HOSTS",
        description="hosts under which paths are taken, comma separated, beside IP addresses; and then pages of other "
        "hosts may not send (Origin). Unset: any host. `headrace up` sets `localhost`, so that no page in a browser "
        "reaches it by a name of its own",
    )
    proxies: Networks = Field(
        (),
        alias="RECEIVE_PROXIES",
        description="addresses of proxies whose `RECEIVE_PROXY_HEADER` counts in the place of Host, as "
        "`10.1.0.0/16,10.2.0.7`, comma separated. They must set that header in each request",
    )
    proxy_header: str = Field(
        "K-Original-Host",
        alias="RECEIVE_PROXY_HEADER",
        description="header with the host that a proxy of `RECEIVE_PROXIES` was asked for",
        pattern=r"^[A-Za-z0-9-]{1,64}$",
    )
    tls_proxies: Networks = Field(
        (),
        alias="RECEIVE_TLS_PROXIES",
        description="addresses of proxies that take TLS in its place: where Knative's `transport-encryption` is "
        "`strict`, requests of theirs with `X-Forwarded-Proto: https` are served. `reconcile` sets the pod's own "
        "address in Knative Services, where Knative Serving's proxies are in front",
    )


class TlsSettings(Settings):
    """The TLS listener of `receive` (ADR 063)."""

    port: int | None = Field(
        None,
        alias="RECEIVE_TLS_PORT",
        description="port on which events are taken by TLS as soon as there is a certificate; unset: nowhere. "
        "`reconcile` sets 8443 in the pods that it makes, but for Knative Services. Not under functions-framework",
        ge=1,
        le=65535,
    )
    directory: str = Field(
        "",
        alias="RECEIVE_TLS_DIR",
        description="folder with `tls.crt` and `tls.key`, as a mounted Secret has them; looked at each second, so that "
        "a new certificate counts from the next connection on",
    )
    least_version: Literal["1.2", "1.3"] = Field(
        "1.3", alias="RECEIVE_TLS_MIN_VERSION", description="least version of TLS that is taken: `1.3` or `1.2`"
    )


class ForwardSettings(Settings):
    """Limits of `forward`."""

    max_in_flight: int = Field(
        100,
        alias="FORWARD_MAX_IN_FLIGHT",
        description="events that a lease has in its subscriber's hands at most",
        ge=1,
        le=10_000,
    )
    max_in_flight_bytes: int = Field(
        16 * MIB,
        alias="FORWARD_MAX_IN_FLIGHT_BYTES",
        description="bytes of the events that a lease holds, in hand or pulled ahead",
        ge=64 * 1024,
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
        "while a caller holds a lease",
    )


class TokenSettings(Settings):
    """The shared token that callers of `forward` and `reconcile` must show."""

    token: SecretStr | None = Field(None, alias="HEADRACE_TOKEN", description="the shared token itself")
    token_file: str | None = Field(
        None, alias="HEADRACE_TOKEN_FILE", description="mounted file that holds it; read at each call"
    )
    caller_digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = Field(
        None,
        alias="HEADRACE_CALLER_DIGEST",
        description="in the place of the token: SHA-256 of the token that callers show to this one function, as "
        "`reconcile` gives it to the functions that it makes (ADR 030)",
    )


class DeliverySettings(Settings):
    """How `receive` knows the deliveries of `forward`."""

    delivery_key: SecretStr | None = Field(
        None,
        alias="HEADRACE_DELIVERY_KEY",
        description="64 hex digits, the same for all functions that deliver to one another: by it a channel tells "
        "`forward`'s deliveries from repeats of its producers (ADR 044). `reconcile` gives it to the functions that "
        "it answers; elsewhere it follows from the shared token, where a function has that. Without either, no "
        "claim is made or believed",
    )


class SecuritySettings(Settings):
    """Where a function finds what Knative's security asks of it (ADR 062)."""

    directory: str = Field(
        "",
        alias="HEADRACE_SECURITY_DIR",
        description="folder where the ConfigMap `headrace-security` is mounted, if there is one; unset: no flag, "
        "policy or trust bundle of Knative counts. `reconcile` sets it for the functions that it makes",
    )
    place: str = Field(
        "",
        alias="HEADRACE_SECURITY_PLACE",
        description="the functions' namespace, for which the operator also pushes that document over NATS; "
        "`HEADRACE_DELIVERY_KEY` proves it",
    )
