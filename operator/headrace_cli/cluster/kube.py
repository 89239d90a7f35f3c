"""The port over Kubernetes' own Python client, which knows what else a kubeconfig may say.

A program that gives credentials is run as the operator runs it: the client would go on as nobody when that fails.
Imported when a verb is told to ask a cluster, since that takes a second. Its calls block, so each is made on a thread.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import http.client
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from headrace.core.errors import HeadraceError, Misconfigured, Refused, Unavailable
from headrace.core.quoting import cut
from headrace.io.process.tls import Stamp, stamp
from headrace_cli.cluster.objects import Object
from headrace_cli.cluster.tls_context import with_our_context
from headrace_operator.kube import exec_spec
from headrace_operator.kube import kubeconfig as kubeconfig_files
from headrace_operator.kube.exec_plugin import Credential, ExecPlugin
from headrace_operator.kube.kubeconfig import Chosen

try:
    import urllib3.exceptions
    import yaml
    from kubernetes import client, config
    from kubernetes.config import incluster_config
except ModuleNotFoundError as error:
    raise Misconfigured(
        f"{error.name} is not installed: install the extra `kn` to ask a cluster", field="--cluster"
    ) from error

CHANNELS = ("messaging.knative.dev", "v1alpha1", "natsjetstreamchannels")
SUBSCRIPTIONS = ("messaging.knative.dev", "v1", "subscriptions")
SECONDS = 30.0
# Of what others say.
LONGEST_WORDS = 1000
UNUSABLE = (config.ConfigException, OSError, ValueError)
# What the client lets out when something else than an API server answers.
STRANGE = (ValueError, TypeError, LookupError, AttributeError, RecursionError)
USER_FILES = ("client-certificate", "client-key", "tokenFile")
IN_CLUSTER = (incluster_config.SERVICE_CERT_FILENAME,)
# In whose documents it says how each is installed.
BRINGS = {CHANNELS: "Headrace's CRD", SUBSCRIPTIONS: "Knative Eventing"}

Answer = TypeVar("Answer")
Kind: TypeAlias = tuple[str, str, str]


class NoSuchKind(Refused):
    """The cluster serves no objects of that kind."""


class Kube:
    """One API server, as a kubeconfig names it."""

    def __init__(self, kubeconfig: Path | None, context: str | None) -> None:
        """Args:
        kubeconfig: None: KUBECONFIG, else the user's own, else the service account of the pod.
        context: None: the current one.

        Raises:
            Misconfigured: there is no such file or context.
        """
        file = None if kubeconfig is None else str(kubeconfig)
        self._program: ExecPlugin | None = None
        self._credential: Credential | None = None
        # The client is made anew when one of the files has changed; with a program that gives credentials it is not.
        self._make: Callable[[], client.ApiClient] | None = None
        self._files: tuple[str, ...] = ()
        self._stamps: tuple[Stamp, ...] = ()
        try:
            if file is None and context is None and not _has_config():
                try:
                    config.load_incluster_config()
                except config.ConfigException:
                    where = os.environ.get("KUBECONFIG") or "~/.kube/config"
                    problem = f"there is no kubeconfig ({where}), and this is no pod"
                    raise Misconfigured(f"{problem}: name one with --kubeconfig", field="--kubeconfig") from None
                self.namespace = "default"
                self._follow(client.ApiClient, IN_CLUSTER)
                return
            paths = kubeconfig_files.paths(file or os.environ.get("KUBECONFIG", ""))
            self._chosen = kubeconfig_files.chosen(paths, context)
            self.namespace = self._chosen.namespace
            if self._chosen.cluster.get("insecure-skip-tls-verify"):
                # Its owner has said so, and need not be told with each request.
                urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
            user = self._chosen.user
            if user.get("exec") and not user.get("token") and not user.get("tokenFile"):
                self._program = ExecPlugin(exec_spec.program(user["exec"], self._chosen.cluster), os.environ)
            else:
                named = [self._chosen.cluster.get("certificate-authority"), *(user.get(each) for each in USER_FILES)]
                files = (*map(str, paths), *(each for each in named if each))
                self._follow(lambda: config.new_client_from_config(config_file=file, context=context), files)
        except (*UNUSABLE, KeyError, TypeError, AttributeError, RecursionError, yaml.YAMLError) as error:
            where = file or "the kubeconfig"
            raise Misconfigured(f"{where} can't be used: {error}", field="--kubeconfig") from error

    def _follow(self, make: Callable[[], client.ApiClient], files: tuple[str, ...]) -> None:
        stamps = tuple(map(stamp, files))
        self._api = with_our_context(make())
        self._make, self._files, self._stamps = make, files, stamps

    def _made_anew(self) -> None:
        """With what the files say by now; while they can't be used, the last good client goes on."""
        if self._make is not None and tuple(map(stamp, self._files)) != self._stamps:
            with contextlib.suppress(*UNUSABLE, KeyError, TypeError, AttributeError, yaml.YAMLError):
                self._follow(self._make, self._files)

    async def channels(self, namespace: str | None) -> list[Object]:
        return await self._list(CHANNELS, namespace)

    async def channel(self, namespace: str, name: str) -> Object | None:
        group, version, plural = CHANNELS
        try:
            return await self._call(
                CHANNELS,
                lambda objects: objects.get_namespaced_custom_object(
                    group, version, namespace, plural, name, _request_timeout=SECONDS
                ),
            )
        except NoSuchKind:
            raise
        except Refused as error:
            if error.status == 404:
                return None
            raise

    async def create_channel(self, channel: Mapping[str, Any], *, dry_run: bool = False) -> Object:
        return await self._create(CHANNELS, channel, dry_run=dry_run)

    async def create_subscription(self, subscription: Mapping[str, Any]) -> Object:
        return await self._create(SUBSCRIPTIONS, subscription)

    async def _create(self, kind: Kind, body: Mapping[str, Any], *, dry_run: bool = False) -> Object:
        group, version, plural = kind
        namespace, options = body["metadata"]["namespace"], {"field_validation": "Strict"}
        if dry_run:
            options["dry_run"] = "All"
        return await self._call(
            kind,
            lambda objects: objects.create_namespaced_custom_object(
                group, version, namespace, plural, dict(body), _request_timeout=SECONDS, **options
            ),
        )

    async def delete_channel(self, namespace: str, name: str) -> None:
        group, version, plural = CHANNELS
        await self._call(
            CHANNELS,
            lambda objects: objects.delete_namespaced_custom_object(
                group, version, namespace, plural, name, _request_timeout=SECONDS
            ),
        )

    async def subscriptions(self, namespace: str | None) -> list[Object]:
        return await self._list(SUBSCRIPTIONS, namespace)

    async def _list(self, kind: Kind, namespace: str | None) -> list[Object]:
        group, version, plural = kind

        def ask(objects: client.CustomObjectsApi) -> list[Object]:
            if namespace is None:
                found = objects.list_cluster_custom_object(group, version, plural, _request_timeout=SECONDS)
            else:
                found = objects.list_namespaced_custom_object(
                    group, version, namespace, plural, _request_timeout=SECONDS
                )
            return [{**item, "metadata": dict(item["metadata"])} for item in found["items"]]

        return await self._call(kind, ask)

    async def _call(self, kind: Kind, ask: Callable[[client.CustomObjectsApi], Answer]) -> Answer:
        for again in (False, True):
            api = await self._authenticated()
            objects = client.CustomObjectsApi(api)
            try:
                return await asyncio.to_thread(ask, objects)
            except client.ApiException as error:
                if error.status == 401 and not again and self._may_ask_again():
                    continue
                raise _refusal(error, kind, api.configuration.host) from error
            except (urllib3.exceptions.HTTPError, OSError) as error:
                problem = f"the API server at {api.configuration.host} does not answer: {_reason(error)}"
                raise Unavailable(f"{problem}; is that the cluster that is meant, and can it be reached?") from error
            except STRANGE as error:
                problem = f"{api.configuration.host} answers with what no API server says"
                raise Unavailable(f"{problem}: see to `server` in the kubeconfig") from error
        raise AssertionError("the second attempt answers or raises")

    def _may_ask_again(self) -> bool:
        return self._program is not None and self._credential is not None and self._program.refuse(self._credential)

    async def _authenticated(self) -> client.ApiClient:
        """The client, with what the program gives if there is one."""
        if self._program is None:
            self._made_anew()
            return self._api
        credential = await self._program.credential()
        if credential is not self._credential:
            try:
                self._api = with_our_context(config.new_client_from_config_dict(_with(self._chosen, credential)))
            except UNUSABLE as error:
                self._program.refuse(credential)
                raise Unavailable(f"what the kubeconfig's program gave can't be used: {error}") from error
            self._credential = credential
        return self._api


def _with(chosen: Chosen, credential: Credential) -> dict[str, Any]:
    """A kubeconfig of one context that says what the program has given."""
    pem = {"client-certificate-data": credential.certificate, "client-key-data": credential.key}
    user = {name: base64.b64encode(text.encode()).decode() for name, text in pem.items() if text}
    if credential.token:
        user["token"] = credential.token
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "cluster", "cluster": dict(chosen.cluster)}],
        "users": [{"name": "user", "user": user}],
        "contexts": [{"name": "context", "context": {"cluster": "cluster", "user": "user"}}],
        "current-context": "context",
    }


def _refusal(error: client.ApiException, kind: Kind, host: str) -> HeadraceError:
    """What the API server's answer means, with what to do about it."""
    try:
        words = str(json.loads(error.body)["message"])
    except (ValueError, KeyError, TypeError):
        # Not from the part of it that serves objects.
        words = ""
    at, status = f"the API server at {host}", int(error.status or 0)
    said = f"{at}: {cut(words or str(error.reason or status), LONGEST_WORDS)}"
    match status:
        case 401:
            return Refused(f"{at} does not know you: see to the credentials of the kubeconfig's user", status=401)
        case 403:
            return Refused(f"{said}; ask for these rights (docs/rbac.md), or take another --context", status=403)
        case 404 if not words or words.startswith("the server could not find"):
            what = f"{kind[2]}.{kind[0]}, version {kind[1]}"
            return NoSuchKind(f"{at} serves no {what}: is {BRINGS[kind]} installed in that cluster?", status=404)
        case 429 | 0:
            return Unavailable(said)
        case _ if status >= 500 or status < 400:
            return Unavailable(f"{said}, status {status}")
        case _:
            return Refused(said, status=status)


def _reason(error: BaseException) -> str:
    """The first cause, in its own words: what wraps it repeats the whole request."""
    while (inner := getattr(error, "reason", None) or error.__cause__) and isinstance(inner, BaseException):
        error = inner
    if isinstance(error, http.client.IncompleteRead):
        return "the connection broke off in the middle"
    words = getattr(error, "strerror", None) or str(error.args[-1] if error.args else "") or type(error).__name__
    return cut(str(words), LONGEST_WORDS)


def _has_config() -> bool:
    try:
        config.list_kube_config_contexts()
    except config.ConfigException:
        return False
    return True
