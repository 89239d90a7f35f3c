"""Contexts of ours for Kubernetes' own client, which would have urllib3 make its own: those differ by Python's version.

Imported by `headrace_cli.cluster.kube` only.
"""

from __future__ import annotations

from typing import Any

from headrace.core import trust
from headrace.io.process import tls


def with_our_context(api: Any) -> Any:
    """The client, with a TLS context into which urllib3 loads the files and data of the client's configuration."""
    given = api.configuration
    if given.verify_ssl:
        named = given.ssl_ca_cert or getattr(given, "ca_cert_data", None)
        context = trust.context() if named else tls.of_system()
        # As in urllib3 and Go, a common name counts as no host name.
        context.hostname_checks_common_name = False
        api.rest_client.pool_manager.connection_pool_kw["ssl_context"] = context
    return api
