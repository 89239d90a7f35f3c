"""Knative's flags are read as Knative reads them, and what makes no sense is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.core.security.flags import DefaultMode, Flags, TransportEncryption


@pytest.mark.parametrize(
    ("data", "flags"),
    [
        pytest.param({}, Flags(), id="nothing is asked for"),
        pytest.param(
            {"transport-encryption": "Strict"},
            Flags(transport_encryption=TransportEncryption.STRICT),
            id="upper or lower case",
        ),
        pytest.param(
            {" transport-encryption ": "permissive"},
            Flags(transport_encryption=TransportEncryption.PERMISSIVE),
            id="white space around a name",
        ),
        pytest.param({"authentication-oidc": "enabled"}, Flags(oidc=True), id="tokens"),
        pytest.param({"authentication-oidc": "allowed"}, Flags(), id="allowed is not enabled"),
        pytest.param(
            {"default-authorization-mode": "deny-all"}, Flags(default_mode=DefaultMode.DENY_ALL), id="nobody by default"
        ),
        pytest.param({"delivery-timeout": "disabled"}, Flags(delivery_timeout=False), id="the one that is on"),
        pytest.param(
            {"eventtype-auto-create": "enabled", "delivery-retryafter": "ENABLED"},
            Flags(auto_create_types=True, retry_after=True),
            id="several",
        ),
        pytest.param(
            {"oidc-discovery-base-url": "https://issuer.example"},
            Flags(oidc_discovery_url="https://issuer.example"),
            id="another issuer",
        ),
        pytest.param(
            {"_example": "authentication-oidc: enabled", "kreference-group": "x", "_authentication-oidc": "enabled"},
            Flags(),
            id="the example and flags that a channel has no use for",
        ),
    ],
)
def test_flags_of_the_config_map(data: dict[str, str], flags: Flags) -> None:
    assert Flags.read(data) == (flags, ())


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        pytest.param(
            "transport-encryption",
            "strikt",
            "transport-encryption is 'strikt': give disabled or permissive or strict; until then it is disabled",
            id="a typo",
        ),
        pytest.param(
            "transport-encryption",
            "enabled",
            "transport-encryption is 'enabled': give disabled or permissive or strict; until then it is disabled",
            id="a word of another flag",
        ),
        pytest.param(
            "authentication-oidc",
            "enabled ",
            "authentication-oidc is 'enabled ': give enabled or disabled; until then it is disabled",
            id="white space around a value, which Knative does not pass over",
        ),
        pytest.param(
            "delivery-timeout",
            True,
            "delivery-timeout is True: give enabled or disabled; until then it is enabled",
            id="no text",
        ),
        pytest.param(
            "default-authorization-mode",
            "",
            "default-authorization-mode is '': give allow-all or deny-all or allow-same-namespace; "
            "until then it is allow-same-namespace",
            id="empty",
        ),
    ],
)
def test_an_unknown_value_is_told_and_means_knatives_default(name: str, value: object, told: str) -> None:
    others = {"eventtype-auto-create": "enabled"}

    assert Flags.read({**others, name: value}) == (Flags(auto_create_types=True), (told,))


def test_flags_come_back_from_json() -> None:
    flags = replace(Flags(), oidc=True, transport_encryption=TransportEncryption.STRICT)

    assert Flags.from_json(flags.to_json()) == flags


@pytest.mark.parametrize("broken", [{"oidc": "yes"}, {"transport_encryption": "strikt"}, {"default_mode": 3}])
def test_broken_flags_are_none(broken: dict[str, object]) -> None:
    with pytest.raises((TypeError, ValueError)):
        Flags.from_json({**Flags().to_json(), **broken})
