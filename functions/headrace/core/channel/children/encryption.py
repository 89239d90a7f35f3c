"""TLS on the way in: whose certificate a `receive` shows, and whom to trust for it (ADR 063).

Each plain `receive` has a Secret of its own name with its certificate. cert-manager makes it where the cluster has
cert-manager, by Knative's issuer; elsewhere an administrator does. All are of one authority, which is read from the one
Secret of the system namespace. Where Knative Serving takes TLS itself, its own address and certificates count. Pure.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.core.channel import related
from headrace.core.channel.child_marks import FUNCTION_LABEL, SCOPE_LABEL, SHARED_LABEL, standard_labels
from headrace.core.channel.children import child_names
from headrace.core.channel.children.pod import Function
from headrace.core.channel.hook import CERT_MANAGER_API
from headrace.core.installation.reconcile_settings import ReconcileSettings
from headrace.core.security.flags import TransportEncryption
from headrace.core.trust import is_readable

ISSUER = {"group": "cert-manager.io", "kind": "ClusterIssuer", "name": "knative-eventing-ca-issuer"}
"""The issuer of the certificates of Knative Eventing's own parts."""
AUTHORITY = "ca.crt"
"""The one key of a Secret that is looked at; it is no secret."""


@dataclass(frozen=True, slots=True)
class SecureAddress:
    """An https address; without certificates the system's authorities count."""

    url: str
    ca_certs: str = ""


@dataclass(frozen=True, slots=True)
class Encryption:
    """Knative's flag, and the authority of our certificates.

    Attributes:
        ca_certs: PEM; empty where the certificates are of an authority that everybody trusts.
        problem: why there is no certificate yet, as a reason for programs and a sentence.
    """

    mode: TransportEncryption = TransportEncryption.DISABLED
    ca_certs: str = ""
    problem: tuple[str, str] | None = None

    @property
    def asked_for(self) -> bool:
        return self.mode is not TransportEncryption.DISABLED

    def address(self, url: str) -> SecureAddress | None:
        """The address at a listener of ours; None where none is asked for, or it has no certificate yet."""
        return SecureAddress(url, self.ca_certs) if self.asked_for and self.problem is None else None


def secret_name(function: str) -> str:
    """The Secret with the certificate of a `receive`, in its namespace."""
    return f"{function}-tls"


def of(
    observed: Mapping[str, Any],
    unseen: Collection[str],
    apis: Collection[str],
    settings: ReconcileSettings,
    before: Mapping[str, Any],
) -> Encryption:
    """The encryption that is asked for, and what there is for it.

    Args:
        observed, unseen, apis: of the hook's request.
        before: the channel's status. While nobody can see the flag, its last value counts, as it does in `receive`.
    """
    flags = related.flags(observed, unseen)
    mode = _last_mode(before) if flags is None else flags.transport_encryption
    place = f"{settings.system_namespace}/{related.TLS_SECRET}"
    if mode is TransportEncryption.DISABLED:
        return Encryption()
    if f"Secret.v1/{place}" in unseen:
        told = f"the operator may not see Secret {place}, which has the authority of its certificate: see docs/rbac.md"
        return Encryption(mode, problem=("CertificateNotSeen", told))
    for secret in related.objects(observed, "v1", "Secret"):
        metadata = secret["metadata"]
        if f"{metadata.get('namespace')}/{metadata.get('name')}" == place:
            return _by_secret(mode, secret, place)
    if CERT_MANAGER_API in apis:
        look = f"kubectl -n {settings.system_namespace} describe certificate {related.TLS_SECRET} tells why"
        told = f"cert-manager has not made Secret {place} yet: {look}; it needs ClusterIssuer {ISSUER['name']}"
    else:
        told = f"there is no Secret {place}, and no cert-manager that would make it: put tls.crt, tls.key and ca.crt "
        told += "there, for the names that docs/knative-security.md lists"
    return Encryption(mode, problem=("CertificateMissing", told))


def _last_mode(before: Mapping[str, Any]) -> TransportEncryption:
    """The mode in which these addresses were written."""
    named = [one.get("name") for one in before.get("addresses") or ()]
    if not named:
        return TransportEncryption.DISABLED
    return TransportEncryption.PERMISSIVE if "http" in named else TransportEncryption.STRICT


def _by_secret(mode: TransportEncryption, secret: Mapping[str, Any], place: str) -> Encryption:
    data = secret.get("data")
    encoded = data.get(AUTHORITY, "") if isinstance(data, Mapping) else ""
    try:
        text = base64.b64decode(encoded, validate=True).decode()
        good = not text or is_readable(text)
    except (binascii.Error, UnicodeDecodeError, TypeError, ValueError):
        good = False
    if good:
        return Encryption(mode, text)
    told = f"{AUTHORITY} of Secret {place} has no certificate that can be read: store PEM there, from BEGIN to END"
    return Encryption(mode, problem=("AuthorityUnreadable", told))


def given(settings: ReconcileSettings, path: str) -> SecureAddress | None:
    """The address that the administrator gives to all channels, if it is an https one."""
    url = settings.address or ""
    return SecureAddress(url.rstrip("/") + path) if url.startswith("https://") else None


def certificates(function: Function, settings: ReconcileSettings) -> tuple[dict[str, Any], ...]:
    """The certificate of a `receive`, and that of the one whose authority counts for all."""
    return certificate(function.name, function.metadata(), settings.domain), _shared_certificate(settings)


def _shared_certificate(settings: ReconcileSettings) -> dict[str, Any]:
    """The certificate of the `receive` that channels of the whole cluster share."""
    name, namespace = child_names.shared("receive", plain=True), settings.system_namespace
    labels = {**standard_labels("receive"), FUNCTION_LABEL: name, SHARED_LABEL: "true", SCOPE_LABEL: "cluster"}
    return certificate(name, {"namespace": namespace, "labels": labels}, settings.domain)


def certificate(function: str, metadata: Mapping[str, Any], domain: str) -> dict[str, Any]:
    """The Certificate of a `receive`, for cert-manager.

    Args:
        metadata: namespace, labels and annotations.
    """
    secret, host = secret_name(function), f"{function}.{metadata['namespace']}.svc"
    return {
        "apiVersion": CERT_MANAGER_API,
        "kind": "Certificate",
        "metadata": {**metadata, "name": secret},
        "spec": {
            "secretName": secret,
            "secretTemplate": {"labels": {"app.kubernetes.io/name": "headrace"}},
            # As long as those of Knative's own parts.
            "duration": "2160h0m0s",
            "renewBefore": "360h0m0s",
            # A handshake costs a tenth of what it does with RSA.
            "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"},
            "dnsNames": [f"{host}.{domain}", host],
            "issuerRef": ISSUER,
        },
    }
