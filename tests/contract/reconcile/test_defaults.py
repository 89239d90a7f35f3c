"""A real `reconcile` with mounted defaults and credentials: an edit holds from the next call on, a broken one never."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from headrace.io.jetstream.api import JetStreamApi
from headrace.io.nats.client import Client
from tests.support.functions.channels import channel, stream
from tests.support.functions.functions import TOKEN, Function
from tests.support.kube.mounts import Mount
from tests.support.nats.nats_server import NatsServer
from tests.support.waiting import until

KEY = "jetstream-dispatcher-config"


def called(function: Function, verb: str, parent: dict[str, Any]) -> dict[str, Any]:
    body = json.dumps({"parent": parent, "finalizing": verb == "finalize"}).encode()
    request = Request(f"{function.url}/{verb}", body, {"Authorization": f"Bearer {TOKEN}"})
    with urlopen(request, timeout=60) as response:
        answer: dict[str, Any] = json.load(response)
    return answer


def conditions(answer: dict[str, Any]) -> dict[str, dict[str, str]]:
    return {one["type"]: one for one in answer["status"]["conditions"]}


async def test_defaults_that_are_edited_hold_from_the_next_call_on(
    nats_server: NatsServer, connection: Client, tmp_path: Path
) -> None:
    mount = Mount(tmp_path / "defaults", **{KEY: "clusterDefault: {spec: {stream: {config: {maxMsgs: 5}}}}"})

    async def most() -> int:
        return int((await JetStreamApi(connection).call("STREAM.INFO.KN_SHOP__ORDERS"))["config"]["max_msgs"])

    with Function("reconcile", nats_server.url, tmp_path, HEADRACE_DEFAULTS_DIR=mount.path) as function:
        first = called(function, "sync", channel())
        assert await most() == 5
        mount.swap(**{KEY: "namespaceDefaults: {shop: {spec: {stream: {config: {maxMsgs: 7}}}}}"})
        called(function, "sync", channel())
        assert await most() == 7
        mount.swap(**{KEY: "namespaceDefaults: [half"})
        broken = called(function, "sync", channel())
        called(function, "sync", channel())
        assert await most() == 7
        assert function.log.count("what is mounted can't be used, the last good one still counts") == 1

    assert conditions(first)["DefaultsApplied"]["message"] == "clusterDefault: stream.config.maxMsgs"
    assert conditions(broken)["Ready"]["status"] == "True"
    assert conditions(broken)["DefaultsApplied"]["reason"] == "DefaultsBroken"


async def test_a_channel_without_credentials_says_so_goes_in_the_end_and_is_served_once_they_are_there(
    tmp_path: Path,
) -> None:
    server = NatsServer(tmp_path / "nats", config='authorization { token: "t0ken" }')
    mount = Mount(tmp_path / "credentials" / "cluster")
    server.start()
    try:
        with Function(
            "reconcile",
            server.url,
            tmp_path,
            ready=False,
            NATS_CREDENTIALS_DIR=str(tmp_path / "credentials"),
            RECONCILE_ORPHAN_GRACE="PT0S",
        ) as function:
            refused = called(function, "sync", channel())
            gone = called(function, "finalize", channel(status=refused["status"]))
            mount.swap(token="t0ken")
            await until(
                "the channel is ready",
                lambda: conditions(called(function, "sync", channel()))["Ready"]["status"] == "True",
            )
    finally:
        server.kill()

    assert conditions(refused)["Ready"]["reason"] == "CredentialsRefused"
    assert gone["finalized"] is True
    assert "KN_SHOP__ORDERS" in gone["headrace"]["events"][0]["message"]


async def test_a_broken_edit_of_the_address_is_told_by_every_channel_and_harms_none(
    nats_server: NatsServer, tmp_path: Path
) -> None:
    mount = Mount(tmp_path / "config", **{"eventing-jetstream": f"url: {nats_server.url}"})
    with Function("reconcile", "nats://127.0.0.1:1", tmp_path, NATS_CONFIG_DIR=mount.path) as function:
        good = called(function, "sync", channel())
        mount.swap(**{"eventing-jetstream": "url: nonsense://a"})
        await until(
            "the edit is seen", lambda: "NatsSettingsRead" in conditions(called(function, "sync", channel())), 30.0
        )
        broken = conditions(called(function, "sync", channel()))

    assert "NatsSettingsRead" not in conditions(good)
    assert broken["Ready"]["status"] == "True"
    assert broken["NatsSettingsRead"]["severity"] == "Info"
    assert (
        "ConfigMap config-jetstream, key eventing-jetstream: url has 'nonsense://a'"
        in (broken["NatsSettingsRead"]["message"])
    )


async def test_the_default_for_the_cluster_says_which_config_map_counts_for_reconcile_and_for_the_functions(
    nats_server: NatsServer, tmp_path: Path
) -> None:
    root = tmp_path / "config"
    Mount(root / "named", **{"eventing-nats": f"url: {nats_server.url}"})
    Mount(root / "proposed", **{"eventing-jetstream": "url: nats://127.0.0.1:1"})
    defaults = Mount(root / "defaults", **{KEY: "clusterDefault: {configName: config-nats}"})
    mounts = {"NATS_CONFIG_DIR": str(root), "HEADRACE_DEFAULTS_DIR": defaults.path, "NATS_CONFIG_NAME": "config-nats"}
    told = {
        **mounts,
        "HEADRACE_NATS_CONFIG_MAP": "config-nats",
        "HEADRACE_IMAGE": "image",
        "HEADRACE_RUNTIME": "deployment",
    }
    with Function("reconcile", "nats://127.0.0.1:1", tmp_path, **told) as function:
        chosen = called(function, "sync", channel())
        defaults.swap(**{KEY: "clusterDefault: {configName: custom}"})
        Mount(root / "proposed")
        unmounted = called(function, "sync", channel())

    assert conditions(chosen)["StreamReady"]["status"] == "True"
    assert "NatsSettingsRead" not in conditions(chosen)
    assert config_maps(chosen) == {"/etc/headrace/nats-config": "config-nats", **SECURITY}
    assert conditions(unmounted)["NatsSettingsRead"]["message"].startswith(
        "clusterDefault.configName of ConfigMap config-ch-jetstream-defaults is 'custom', which is not mounted"
    )
    assert config_maps(unmounted) == {
        "/etc/headrace/nats-config/named": "config-nats",
        "/etc/headrace/nats-config/proposed": "config-jetstream",
        **SECURITY,
    }


SECURITY = {"/etc/headrace/security": "headrace-security"}


def config_maps(answer: dict[str, Any]) -> dict[str, str]:
    """Those of `receive`, by where they are mounted."""
    pods = [one["spec"]["template"]["spec"] for one in answer["children"] if "template" in one["spec"]]
    (pod,) = (one for one in pods if one["containers"][0]["name"] == "receive")
    paths = {one["name"]: one["mountPath"] for one in pod["containers"][0]["volumeMounts"]}
    found = {one["name"]: one["projected"]["sources"][0].get("configMap", {}) for one in pod["volumes"]}
    return {paths[name]: source["name"] for name, source in found.items() if source}


async def test_the_list_of_tenants_is_read_again_at_each_call_and_a_broken_one_never_counts(
    nats_server: NatsServer, connection: Client, tmp_path: Path
) -> None:
    wanted = channel(stream=stream(additionalSubjects=["legacy.orders"]))
    mount = Mount(tmp_path / "defaults")

    async def subjects() -> list[str]:
        found: list[str] = (await JetStreamApi(connection).call("STREAM.INFO.KN_SHOP__ORDERS"))["config"]["subjects"]
        return found

    with Function("reconcile", nats_server.url, tmp_path, HEADRACE_DEFAULTS_DIR=mount.path) as function:
        closed = called(function, "sync", wanted)
        assert await subjects() == ["shop.orders._knative"]
        mount.swap(tenants='- {namespaces: ["sh*"], subjects: ["legacy.*"]}')
        called(function, "sync", wanted)
        assert await subjects() == ["shop.orders._knative", "legacy.orders"]
        mount.swap(tenants="- {namespaces: [shop], subject: [legacy.orders]}")
        broken = called(function, "sync", wanted)

    refused = conditions(closed)["Ready"]
    assert (refused["status"], refused["reason"]) == ("False", "NameRefused")
    assert refused["message"] == (
        "spec.stream.config.additionalSubjects[0] is 'legacy.orders': only subjects below 'shop.>' are its own. "
        "Namespace shop may not use it, so it has no effect: take it out, or an administrator adds to the key tenants "
        "of ConfigMap config-ch-jetstream-defaults in knative-eventing: "
        '- {namespaces: ["shop"], subjects: ["legacy.orders"]}'
    )
    assert "TenantsRead" not in conditions(closed)
    assert conditions(broken)["Ready"]["status"] == "True"
    assert conditions(broken)["TenantsRead"]["message"] == (
        "ConfigMap config-ch-jetstream-defaults, key tenants: [0].subject is unknown: check its spelling; "
        "the last good list holds"
    )
