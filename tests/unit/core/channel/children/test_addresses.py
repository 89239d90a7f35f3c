"""Addresses by Knative's flag: as Knative's own channels have them, on both runtimes, and why there is none."""

from __future__ import annotations

import base64
from typing import Any

import pytest
import trustme

from headrace.core.channel.children import Encryption, addresses, encryption
from headrace.core.installation.reconcile_settings import ReconcileSettings
from headrace.core.security.flags import TransportEncryption
from tests.support.functions.channels import entry
from tests.support.functions.children import BOTH, all_of, wanted

CERT_MANAGER = "cert-manager.io/v1"
PEM = trustme.CA(key_type=trustme.KeyType.ECDSA).cert_pem.bytes().decode()
STRICT, PERMISSIVE = TransportEncryption.STRICT, TransportEncryption.PERMISSIVE
ON = Encryption(PERMISSIVE, PEM)
PLAIN = "headrace-receive-plain.knative-eventing.svc.cluster.local"
HTTPS = {"name": "https", "url": f"https://{PLAIN}/shop/orders", "CACerts": PEM}
BY_HOST = "http://orders-kn-jsm-channel.shop.svc.cluster.local"
BY_PATH = "http://headrace-receive.knative-eventing.svc.cluster.local/shop/orders"
RECEIVE = "Service.serving.knative.dev/v1"


def told(found: Encryption, *, read_only: bool = False, **asked: Any) -> dict[str, Any]:
    return addresses.to_status(
        "http://receive/shop/orders", wanted(entry(), encryption=found, **asked), read_only=read_only
    )


@pytest.mark.parametrize(
    ("asked", "http"),
    [
        pytest.param({"settings": {"runtime": "deployment"}}, BY_HOST, id="Deployments"),
        pytest.param({"settings": {"runtime": "knative"}}, BY_PATH, id="Knative Serving"),
    ],
)
def test_addresses_are_those_of_knatives_own_channels_in_each_mode(asked: dict[str, Any], http: str) -> None:
    named = {"name": "http", "url": http}
    assert told(Encryption(), **asked) == {"address": {"url": http}}
    assert told(ON, **asked) == {"address": named, "addresses": [HTTPS, named]}
    assert told(Encryption(STRICT, PEM), **asked) == {"address": HTTPS, "addresses": [HTTPS]}


def test_an_authority_of_the_whole_world_needs_no_certificates_in_an_address() -> None:
    assert "CACerts" not in told(Encryption(STRICT), settings={"runtime": "deployment"})["address"]


def test_a_mirror_shows_by_both_that_it_takes_nothing() -> None:
    found = told(ON, read_only=True, settings={"runtime": "deployment"})
    assert [one["url"][-10:] for one in found["addresses"]] == [found["address"]["url"][-10:]] * 2


def served_by_tls(*, host_urls: bool = False) -> dict[str, Any]:
    """A `receive` whose address is https by Knative Serving's own TLS."""
    functions = wanted(entry(), settings={"runtime": "knative"})
    (receive,) = (one for one in all_of(functions, RECEIVE, "receive"))
    status = {"address": {"url": "https://headrace-receive.knative-eventing.svc.cluster.local", "CACerts": "theirs"}}
    return {
        "settings": {"runtime": "knative", "host_urls": host_urls},
        "shared": [{**receive, "status": status}],
        "apis": {*BOTH, CERT_MANAGER},
    }


def test_where_knative_serving_takes_tls_its_address_counts_and_nothing_stands_beside_it() -> None:
    functions = wanted(entry(), encryption=Encryption(STRICT, PEM), **served_by_tls())
    assert functions.https == encryption.SecureAddress(BY_PATH.replace("http:", "https:"), "theirs")
    assert all_of(functions, "Deployment.apps/v1", "receive") == []
    assert all_of(functions, f"Certificate.{CERT_MANAGER}") == []
    # Without the flag it is as ever.
    assert wanted(entry(), **served_by_tls()).https is None


def test_an_https_address_of_the_administrator_goes_before_all_others() -> None:
    settings = {"runtime": "deployment", "address": "https://events.example"}
    assert told(Encryption(STRICT, PEM), settings=settings)["address"]["url"] == "https://events.example/shop/orders"
    assert told(ON, settings=settings)["address"]["url"] == BY_HOST
    assert told(Encryption(), settings=settings)["address"]["url"] == "https://events.example/shop/orders"


def test_a_certificate_names_one_service_and_no_other() -> None:
    functions = wanted(entry(), encryption=ON, settings={"runtime": "deployment"}, apis={CERT_MANAGER})
    (found,) = all_of(functions, f"Certificate.{CERT_MANAGER}")
    assert (found["metadata"]["namespace"], found["metadata"]["name"]) == (
        "knative-eventing",
        "headrace-receive-plain-tls",
    )
    assert found["spec"]["secretName"] == "headrace-receive-plain-tls"
    assert found["spec"]["dnsNames"] == [PLAIN, PLAIN.removesuffix(".cluster.local")]
    assert found["spec"]["issuerRef"]["name"] == "knative-eventing-ca-issuer"


def test_functions_of_a_namespace_have_a_certificate_there_and_the_one_whose_authority_counts() -> None:
    annotations = {"eventing.knative.dev/scope": "namespace"}
    functions = wanted(
        entry(), encryption=ON, settings={"runtime": "deployment"}, apis={CERT_MANAGER}, annotations=annotations
    )
    found = {one["metadata"]["namespace"]: one for one in all_of(functions, f"Certificate.{CERT_MANAGER}")}
    assert found.keys() == {"shop", "knative-eventing"}
    assert found["shop"]["spec"]["dnsNames"][0] == "headrace-receive-plain.shop.svc.cluster.local"
    # All channels of the cluster want the very same one.
    alone = wanted(entry(), encryption=ON, settings={"runtime": "deployment"}, apis={CERT_MANAGER})
    assert [found["knative-eventing"]] == all_of(alone, f"Certificate.{CERT_MANAGER}")


@pytest.mark.parametrize("mode", list(TransportEncryption))
def test_pods_are_the_same_in_every_mode_so_that_an_edit_restarts_none(mode: TransportEncryption) -> None:
    settings = {"runtime": "deployment"}
    (mine,) = all_of(wanted(entry(), settings=settings), "Deployment.apps/v1", "receive")
    (theirs,) = all_of(
        wanted(entry(), settings=settings, encryption=Encryption(mode, PEM)), "Deployment.apps/v1", "receive"
    )
    assert mine == theirs


def test_the_service_leads_to_tls_only_where_it_is_asked_for() -> None:
    def ports(found: Encryption | None) -> list[tuple[str, int, int]]:
        (service,) = all_of(
            wanted(entry(), settings={"runtime": "deployment"}, encryption=found), "Service.v1", "receive"
        )
        return [(one["name"], one["port"], one["targetPort"]) for one in service["spec"]["ports"]]

    assert ports(None) == [("http", 80, 8080)]
    assert ports(ON) == [("http", 80, 8080), ("https", 443, 8443)]


# ── why there is none ───────────────────────────────────────────────────────────────────────────────────────────────


def observed(mode: str = "strict", **data: str) -> dict[str, Any]:
    flags = {
        "metadata": {"namespace": "knative-eventing", "name": "config-features"},
        "data": {"transport-encryption": mode},
    }
    secret = {"metadata": {"namespace": "knative-eventing", "name": "headrace-receive-plain-tls"}, "data": data}
    return {"ConfigMap.v1": {"a": flags}, "Secret.v1": {"b": secret} if data else {}}


def read(seen: dict[str, Any], *unseen: str, apis: tuple[str, ...] = ()) -> Encryption:
    return encryption.of(seen, unseen, apis, ReconcileSettings(), {})


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_the_flag_and_the_authority_are_read_from_what_the_operator_sees() -> None:
    assert read(observed(**{"ca.crt": encoded(PEM)})) == Encryption(STRICT, PEM)
    assert read(observed("Permissive", **{"tls.crt": "x"})) == Encryption(PERMISSIVE)
    assert read(observed("disabled")) == read({}) == Encryption()


@pytest.mark.parametrize("data", ["%", encoded("no certificate"), base64.b64encode(b"\xff").decode()])
def test_an_authority_that_nobody_can_read_is_told(data: str) -> None:
    assert (read(observed(**{"ca.crt": data})).problem or ("",))[0] == "AuthorityUnreadable"


def test_what_lacks_is_told_with_the_name_of_the_secret_and_whoever_makes_it() -> None:
    by_hand, by_it = read(observed()), read(observed(), apis=(CERT_MANAGER,))
    hidden = read(observed(), "Secret.v1/knative-eventing/headrace-receive-plain-tls")
    reasons = [one.problem[0] for one in (by_hand, by_it, hidden) if one.problem]
    assert reasons == ["CertificateMissing", "CertificateMissing", "CertificateNotSeen"]
    assert all(
        "knative-eventing/headrace-receive-plain-tls" in one.problem[1]
        for one in (by_hand, by_it, hidden)
        if one.problem
    )
    assert "knative-eventing-ca-issuer" in (by_it.problem or ("", ""))[1]


@pytest.mark.parametrize(
    ("mode", "type_", "informative"), [(STRICT, "Addressable", False), (PERMISSIVE, "EncryptionReady", True)]
)
def test_a_strict_channel_has_no_address_until_it_can_be_sent_to_and_a_permissive_one_keeps_its_own(
    mode: TransportEncryption, type_: str, informative: bool
) -> None:
    lacks = Encryption(mode, problem=("CertificateMissing", "there is none"))
    functions = wanted(entry(), encryption=lacks, settings={"runtime": "deployment"})
    found = addresses.lacking("", functions)
    assert found is not None
    assert (found.type, found.reason, found.informative) == (type_, "CertificateMissing", informative)
    assert addresses.to_status("", functions, read_only=False) == {"address": {"name": "http", "url": BY_HOST}}


def test_functions_that_are_not_ours_to_make_are_encrypted_by_their_address() -> None:
    functions = wanted(entry(), encryption=Encryption(STRICT), settings={"image": ""})
    assert getattr(addresses.lacking("http://receive/shop/orders", functions), "reason", "") == "NoHttpsAddress"
    assert addresses.lacking("https://receive/shop/orders", functions) is None
    https = {"name": "https", "url": "https://receive/shop/orders"}
    found = addresses.to_status("https://receive/shop/orders", functions, read_only=False)
    assert found == {"address": https, "addresses": [https]}


@pytest.mark.parametrize("mode", list(TransportEncryption))
def test_while_nobody_can_see_the_flag_its_last_value_counts(mode: TransportEncryption) -> None:
    before = told(Encryption(mode, PEM), settings={"runtime": "deployment"})
    hidden = {"Secret.v1": observed(**{"ca.crt": encoded(PEM)})["Secret.v1"]}
    found = encryption.of(hidden, (), (), ReconcileSettings(), before)
    assert found.mode is mode
