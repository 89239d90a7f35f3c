"""The roles of the operator, of the functions and of Knative's controllers: each rule is needed, and none is more."""

from __future__ import annotations

import itertools
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.control_plane.channel_manifests import channel
from tests.control_plane.operator_deeds import SYSTEM, Deed, deeds
from tests.support.kube.control_plane import ControlPlane
from tests.support.kube.kube_api import CHANNELS, Answer, Api, connect
from tests.support.waiting import until

RBAC = Path(__file__).parents[3] / "infra" / "base" / "rbac"
OPERATOR = f"system:serviceaccount:{SYSTEM}:headrace-operator"
FUNCTIONS = f"system:serviceaccount:{SYSTEM}:headrace-functions"
SERVING = "knative-serving"
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
# What the operator has to do with, and what nobody should give it by mistake.
RESOURCES = (
    "messaging.knative.dev/natsjetstreamchannels",
    "messaging.knative.dev/natsjetstreamchannels/status",
    "messaging.knative.dev/natsjetstreamchannels/finalizers",
    "messaging.knative.dev/subscriptions",
    "messaging.knative.dev/channels",
    "eventing.knative.dev/eventpolicies",
    "eventing.knative.dev/eventtypes",
    "/services",
    "/serviceaccounts",
    "/serviceaccounts/token",
    "/secrets",
    "/configmaps",
    "/pods",
    "/pods/exec",
    "/namespaces",
    "/nodes",
    "/events",
    "apps/deployments",
    "apps/deployments/scale",
    "serving.knative.dev/services",
    "keda.sh/scaledobjects",
    "cert-manager.io/certificates",
    "events.k8s.io/events",
    "coordination.k8s.io/leases",
    "rbac.authorization.k8s.io/roles",
    "rbac.authorization.k8s.io/clusterroles",
    "rbac.authorization.k8s.io/rolebindings",
    "apiextensions.k8s.io/customresourcedefinitions",
)
DOCUMENT = {(verb, "/configmaps") for verb in ("get", "create", "patch", "delete")}
MADE = (
    "apps/deployments",
    "serving.knative.dev/services",
    "keda.sh/scaledobjects",
    "cert-manager.io/certificates",
    "/serviceaccounts",
)
Permission = tuple[str, str]
_FORBIDDEN = re.compile(r'cannot (\w+) resource "([^"]+)" in API group "([^"]*)"(?: in the namespace "([^"]+)")?')
FUNCTIONS_ROLE, TOKENS_ROLE = "headrace-operator-functions", "headrace-operator-tokens"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings"


def documents() -> Iterator[dict[str, Any]]:
    for file in sorted(RBAC.glob("*.yaml")):
        yield from yaml.safe_load_all(file.read_text(encoding="utf-8"))


def permissions(role: dict[str, Any]) -> set[Permission]:
    """Verb and resource, `group/resource`, of every rule."""
    return {
        (verb, f"{group}/{resource}")
        for rule in role["rules"]
        for group, resource, verb in itertools.product(rule["apiGroups"], rule["resources"], rule["verbs"])
    }


def role(name: str, kind: str = "ClusterRole") -> dict[str, Any]:
    return next(one for one in documents() if (one["kind"], one["metadata"]["name"]) == (kind, name))


def path_of(body: dict[str, Any]) -> str:
    root = "/api/v1" if body["apiVersion"] == "v1" else f"/apis/{body['apiVersion']}"
    namespace = body["metadata"].get("namespace")
    return f"{root}/{f'namespaces/{namespace}/' if namespace else ''}{body['kind'].lower()}s"


@pytest.fixture
async def installed(api: Api) -> None:
    """Our roles, accounts and bindings."""
    for name in (SYSTEM, SERVING):
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        (await api.apply(f"/api/v1/namespaces/{name}", namespace, manager="test")).unwrapped()
    for body in documents():
        (await api.apply(f"{path_of(body)}/{body['metadata']['name']}", body, manager="test")).unwrapped()

    async def heard() -> bool:
        return await allowed(api, OPERATOR, "list", "messaging.knative.dev/natsjetstreamchannels", "any")

    await until("the API server has taken the bindings in", heard, 30.0)


async def allowed(api: Api, user: str, verb: str, resource: str, namespace: str, name: str = "") -> bool:
    group, plural = resource.split("/", 1)
    plural, _, subresource = plural.partition("/")
    asked = {"namespace": namespace, "verb": verb, "group": group, "resource": plural, "subresource": subresource}
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{SYSTEM}", "system:authenticated"]
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "groups": groups, "resourceAttributes": {**asked, "name": name}},
    }
    answer = await api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
    return bool(answer.unwrapped()["status"]["allowed"])


async def all_allowed(api: Api, user: str, namespace: str, name: str = "") -> set[Permission]:
    return {
        (verb, resource)
        for verb, resource in itertools.product(VERBS, RESOURCES)
        if await allowed(api, user, verb, resource, namespace, name)
    }


@pytest.mark.usefixtures("installed")
async def test_the_operator_may_do_what_its_role_says_and_no_more(api: Api) -> None:
    leases = {("create", "coordination.k8s.io/leases")}
    # What runs for cluster-scoped channels runs in the system namespace, and no account of theirs has to be made there.
    functions = {one for one in permissions(role(FUNCTIONS_ROLE)) if one[1] not in ("/serviceaccounts", "/configmaps")}
    own = {(verb, "coordination.k8s.io/leases") for verb in ("get", "list", "watch", "update")}
    # What sinks may be is said by the roles that are labelled so; here that is one, our own.
    await aggregated(api)
    everywhere = permissions(role("headrace-operator")) | permissions(role("headrace-addressable-resolver"))

    assert await all_allowed(api, OPERATOR, "shop") == everywhere
    assert not everywhere & {(verb, kind) for verb in ("get", "create", "patch", "delete") for kind in MADE}
    # RBAC knows no labels: of the ConfigMaps there it may see all.
    there = everywhere | leases | functions | {(verb, "/configmaps") for verb in ("list", "watch")}
    assert await all_allowed(api, OPERATOR, SYSTEM) == there
    assert await all_allowed(api, OPERATOR, SYSTEM, "headrace-operator") == there | own
    assert await all_allowed(api, OPERATOR, SYSTEM, "headrace-security") == there | DOCUMENT
    # Of all Secrets it may see this one, in this namespace.
    authority = {(verb, "/secrets") for verb in ("list", "watch")}
    assert await all_allowed(api, OPERATOR, SYSTEM, "headrace-receive-plain-tls") == there | authority
    assert await all_allowed(api, OPERATOR, "shop", "headrace-receive-plain-tls") == everywhere
    autoscaler = {(verb, "/configmaps") for verb in ("list", "watch")}
    assert await all_allowed(api, OPERATOR, SERVING) == everywhere
    assert await all_allowed(api, OPERATOR, SERVING, "config-autoscaler") == everywhere | autoscaler


@pytest.mark.usefixtures("installed")
async def test_in_a_namespace_that_lets_it_the_operator_may_make_functions_and_in_no_other(
    api: Api, namespace: str
) -> None:
    await aggregated(api)
    before = await all_allowed(api, OPERATOR, namespace)

    await let_make_functions(api, namespace)

    functions = permissions(role(FUNCTIONS_ROLE))
    assert await all_allowed(api, OPERATOR, namespace) == before | (functions - DOCUMENT)
    assert await all_allowed(api, OPERATOR, namespace, "headrace-security") == before | functions
    assert await all_allowed(api, OPERATOR, "shop") == before


@pytest.mark.usefixtures("installed")
async def test_in_a_namespace_that_lets_it_the_operator_may_have_tokens_made_and_in_no_other(
    api: Api, namespace: str
) -> None:
    await aggregated(api)
    before = await all_allowed(api, OPERATOR, namespace)

    await let(api, namespace, TOKENS_ROLE, "/serviceaccounts/token")

    assert await all_allowed(api, OPERATOR, namespace) == before | {("create", "/serviceaccounts/token")}
    assert await all_allowed(api, OPERATOR, "shop") == before


async def let_make_functions(api: Api, namespace: str) -> None:
    """As the condition RightsGranted says."""
    await let(api, namespace, FUNCTIONS_ROLE, "apps/deployments")


async def let(api: Api, namespace: str, name: str, creates: str) -> None:
    """Bind a role of the operator's in a namespace."""
    body = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": "headrace-operator", "namespace": SYSTEM}],
    }
    (await api.create(BINDINGS.format(namespace), body)).unwrapped()

    async def heard() -> bool:
        return await allowed(api, OPERATOR, "create", creates, namespace)

    await until("the API server has taken the binding in", heard, 30.0)


async def aggregated(api: Api) -> None:
    """Wait until the role of sinks has taken in those of its label, and the API server knows."""
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/headrace-operator-sinks"
    label = "duck.knative.dev/addressable"

    async def is_so() -> bool:
        known = (await api.get(f"{path.rpartition('/')[0]}?labelSelector={label}=true")).unwrapped()["items"]
        found = (await api.get(path)).unwrapped().get("rules") or []
        wanted = set().union(*(permissions(one) for one in known))
        return permissions({"rules": found}) == wanted == permissions(role("headrace-addressable-resolver"))

    async def heard() -> bool:
        return await allowed(api, OPERATOR, "watch", "messaging.knative.dev/natsjetstreamchannels/status", "any")

    await until("the role of sinks is filled in", is_so, 60.0)
    await until("the API server has taken it in", heard, 60.0)


@pytest.mark.usefixtures("installed")
async def test_the_functions_may_do_nothing_and_hold_no_token(api: Api) -> None:
    assert await all_allowed(api, FUNCTIONS, SYSTEM) == set()
    assert await all_allowed(api, FUNCTIONS, "shop") == set()
    found = (await api.get(f"/api/v1/namespaces/{SYSTEM}/serviceaccounts/headrace-functions")).unwrapped()
    assert found["automountServiceAccountToken"] is False


def test_knatives_roles_take_in_what_its_controllers_need() -> None:
    channels, status = RESOURCES[:2]
    manipulator = role("headrace-channelable-manipulator")
    resolver = role("headrace-addressable-resolver")
    subscriber = role("headrace-crossnamespace-subscriber")

    assert manipulator["metadata"]["labels"]["duck.knative.dev/channelable"] == "true"
    wanted = ("create", "get", "list", "watch", "update", "patch", "delete")
    assert permissions(manipulator) == set(itertools.product(wanted, (channels, status)))
    assert resolver["metadata"]["labels"]["duck.knative.dev/addressable"] == "true"
    assert permissions(resolver) == set(itertools.product(("get", "list", "watch"), (channels, status)))
    assert subscriber["metadata"]["labels"]["duck.knative.dev/crossnamespace-subscribable"] == "true"
    assert permissions(subscriber) == {("knsubscribe", channels)}


@pytest.mark.usefixtures("installed")
async def test_each_rule_of_the_operator_is_what_some_deed_of_its_needs(
    api: Api, control_plane: ControlPlane, namespace: str
) -> None:
    """Every deed is done as nobody first: the API server itself says which permission it takes."""
    (await api.create(CHANNELS.format(namespace=namespace), channel())).unwrapped()
    await let_make_functions(api, namespace)
    await let(api, namespace, TOKENS_ROLE, "/serviceaccounts/token")
    async with as_user(control_plane, OPERATOR) as operator, as_user(control_plane, "nobody") as nobody:
        needed: dict[str, set[Permission]] = {}
        for name, deed in deeds(namespace):
            refused = await deed(nobody)
            assert refused.status == 403, (name, refused.status, refused.message)
            missing = _FORBIDDEN.search(refused.message)
            assert missing, refused.message
            where = missing[4] if missing[4] in (SYSTEM, SERVING) else "of channels"
            needed.setdefault(where, set()).add((missing[1], f"{missing[3]}/{missing[2]}"))
            done = await answered(operator, deed)
            assert done.accepted, (name, done.message)

    # Who applies is refused for lack of *patch* first. That *create* is needed, too, the test below shows.
    for where in ("of channels", SYSTEM):
        needed[where].add(("create", "/configmaps"))
    own, autoscaler, features = (
        permissions(role(f"headrace-operator{name}", "Role")) for name in ("", "-autoscaler", "-features")
    )
    everywhere = permissions(role("headrace-operator"))
    assert needed == {
        "of channels": everywhere | permissions(role(FUNCTIONS_ROLE)) | permissions(role(TOKENS_ROLE)),
        SYSTEM: own | features,
        SERVING: autoscaler,
    }


@pytest.mark.usefixtures("installed")
async def test_to_make_what_is_applied_by_its_name_takes_the_right_to_create_it(
    api: Api, control_plane: ControlPlane, namespace: str
) -> None:
    await let_make_functions(api, namespace)
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "headrace-security"}}
    rule = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["headrace-security"], "verbs": ["patch"]}
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    (await api.create(f"{rbac}/roles", {"metadata": {"name": "patcher"}, "rules": [rule]})).unwrapped()
    subject = {"kind": "User", "name": "patcher", "apiGroup": "rbac.authorization.k8s.io"}
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "patcher"}
    binding = {"metadata": {"name": "patcher"}, "roleRef": ref, "subjects": [subject]}
    (await api.create(f"{rbac}/rolebindings", binding)).unwrapped()
    await until(
        "it counts", lambda: allowed(api, "patcher", "patch", "/configmaps", namespace, "headrace-security"), 30
    )
    path = f"/api/v1/namespaces/{namespace}/configmaps/headrace-security"

    async with as_user(control_plane, "patcher") as patcher, as_user(control_plane, OPERATOR) as operator:
        refused = await patcher.apply(path, body, manager="headrace")
        made = await operator.apply(path, body, manager="headrace")
        other = await operator.apply(f"{path}-other", {**body, "metadata": {}}, manager="headrace")

    assert (refused.status, made.accepted, other.status) == (403, True, 403)
    assert "cannot create" in refused.message


async def answered(operator: Api, deed: Deed) -> Answer:
    """What the server says once it is ready to say anything: a kind that is new to it is not served for a moment."""
    found = [await deed(operator)]

    async def is_told() -> bool:
        if found[0].status == 429:
            found[0] = await deed(operator)
        return found[0].status != 429

    await until("the server has time for it", is_told, 60.0)
    return found[0]


@asynccontextmanager
async def as_user(control_plane: ControlPlane, user: str) -> AsyncIterator[Api]:
    session, api = connect(control_plane, user=user)
    async with session:
        yield api
