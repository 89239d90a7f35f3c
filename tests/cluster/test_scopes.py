"""Namespaces with functions of their own, and with credentials of their own for another account of NATS."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.cluster.names import NATS
from tests.cluster.conftest import Told
from tests.cluster.test_install import of_channels
from tests.support.cluster.installation import Installation, of_kind
from tests.support.cluster.kubectl import SYSTEM, Kubectl, until
from tests.support.cluster.load import World
from tests.support.cluster.pods import OURS
from tests.support.nats.streams import Nats
from tests.support.nats.tenants import ACCOUNTS, INSTALLATION, PASSWORD, TENANT, secret_of
from tests.support.programs.page import of

PLACE = "nats.accounts.svc.cluster.local:4222"
SERVER = f"""
apiVersion: v1
kind: Namespace
metadata: {{name: accounts}}
---
apiVersion: v1
kind: Service
metadata: {{name: nats, namespace: accounts}}
spec:
  selector: {{app: nats}}
  ports: [{{port: 4222}}]
---
apiVersion: v1
kind: Pod
metadata: {{name: nats, namespace: accounts, labels: {{app: nats}}}}
spec:
  containers:
    - name: nats
      image: {NATS}
      args: [-c, /etc/nats/nats.conf]
      readinessProbe: {{tcpSocket: {{port: 4222}}}}
      volumeMounts: [{{name: config, mountPath: /etc/nats}}]
  volumes: [{{name: config, configMap: {{name: nats}}}}]
"""
EVENTS, RATE = 200, 50.0

pytestmark = pytest.mark.timeout(500)


@pytest.fixture
def two_accounts(kubectl: Kubectl) -> Iterator[str]:
    """The IP of a NATS that lets in users only, of two accounts."""
    config = f'jetstream {{ store_dir: "/data" }}\n{ACCOUNTS}'
    kubectl("create", "namespace", "accounts")
    kubectl("create", "configmap", "nats", "-n", "accounts", f"--from-literal=nats.conf={config}")
    kubectl.apply(SERVER)
    kubectl("wait", "--for=condition=Ready", "pod/nats", "-n", "accounts", "--timeout=60s")
    yield str(kubectl.get("service", "nats", "accounts")["spec"]["clusterIP"])
    kubectl("delete", "namespace", "accounts", "--wait=false")


@pytest.fixture
def with_credentials(bare: Installation, kubectl: Kubectl, two_accounts: str) -> Iterator[Installation]:
    """Installed, and told of NATS by the page's second block, with this one in place of its example."""
    first, second = [block.text for block in of("kubectl") if block.about == "run"]
    second = second.replace("nats.example:4222", PLACE).replace("username=headrace", f"username={INSTALLATION}")
    bare.shell(second.replace("change-me", PASSWORD))
    bare.shell(first)
    bare.wait()
    yield bare
    bare.remove()
    kubectl("delete", "configmap/config-nats", "secret/headrace-nats", "-n", SYSTEM)
    bare.wait_until_nothing_is_left()


async def test_a_namespace_with_functions_of_its_own(world: World, kubectl: Kubectl, told: Told) -> None:
    let_make_functions(kubectl, "scoped")
    flow = world.flow("scoped", "orders", scope="namespace")
    account = await flow.under_load("scoped", EVENTS, RATE)
    assert (account.lost, account.twice, account.unknown) == ([], {}, 0)
    assert sorted(of_kind(kubectl, "ksvc", "scoped")) == ["forward", "receive"]
    there = kubectl.objects("ksvc", SYSTEM, OURS)
    assert [one for one in there if "scoped/orders" in one["metadata"].get("annotations", {}).values()] == []
    told(f"`receive` and `forward` are in the channel's namespace; {account.accepted} events, 0 lost, 0 twice")


async def test_a_namespace_with_credentials_for_an_account_of_its_own(
    with_credentials: Installation, world_anywhere: World, kubectl: Kubectl, two_accounts: str, told: Told
) -> None:
    common = world_anywhere.flow("common", "orders", nats=_url(two_accounts, INSTALLATION))
    account = await common.under_load("common", EVENTS, RATE)
    assert (account.lost, account.twice, account.unknown) == ([], {}, 0)

    let_make_functions(kubectl, "tenant")
    secret = [f"--from-literal={key}={text}" for key, text in secret_of(TENANT).items()]
    kubectl("create", "secret", "generic", "tenant-nats", "-n", "tenant", *secret)
    named = {"url": f"nats://{PLACE}", "auth": {"usernamePassword": {"secret": {"secretName": "tenant-nats"}}}}
    config = f"--from-literal=eventing-jetstream={json.dumps(named)}"
    kubectl("create", "configmap", "config-nats", "-n", "tenant", config)
    flow = world_anywhere.flow("tenant", "orders", scope="namespace", nats=_url(two_accounts, TENANT))
    account = await flow.under_load("tenant", EVENTS, RATE)
    assert (account.lost, account.twice, account.unknown) == ([], {}, 0)
    assert kubectl.get("natsjetstreamchannel", "orders", "tenant")["status"]["elsewhere"] is True
    async with Nats(_url(two_accounts, TENANT)) as client:
        assert await of_channels(client) == ["KN_TENANT__ORDERS", "KN_TENANT__ORDERS_aside"]
    async with Nats(_url(two_accounts, INSTALLATION)) as client:
        assert await of_channels(client) == ["KN_COMMON__ORDERS", "KN_COMMON__ORDERS_aside"]
    kubectl("delete", "natsjetstreamchannel", "orders", "-n", "tenant", "--timeout=60s")
    async with Nats(_url(two_accounts, TENANT)) as client:
        assert await of_channels(client) == []
    until("its functions are gone", lambda: of_kind(kubectl, "deployment", "tenant") == [], 60)
    told(
        "streams of each account in it alone; 200 events in each, 0 lost; deleted with its channel in its account, too"
    )


def _url(ip: str, user: str) -> str:
    return f"nats://{user}:{PASSWORD}@{ip}:4222"


def let_make_functions(kubectl: Kubectl, namespace: str) -> None:
    """A new namespace that lets the operator make functions there, as docs/rbac.md says."""
    page = (Path(__file__).parents[2] / "docs" / "rbac.md").read_text(encoding="utf-8")
    (line,) = (line for line in page.splitlines() if line.startswith("kubectl -n shop create rolebinding "))
    kubectl("create", "namespace", namespace)
    kubectl(*shlex.split(line.replace("-n shop", f"-n {namespace}"))[1:])
