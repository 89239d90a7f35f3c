"""The port over Kubernetes' own Python client, which knows what else a kubeconfig may say.

A program that gives credentials is run here by the client's own means: the client alone would go on as nobody when the
program fails. The module is imported when a verb is told to ask a cluster, since that takes a second. Its calls block,
so each is made on a thread.
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
from headrace_operator.kube import kubeconfig as kubeconfig_files
from headrace_operator.kube.kubeconfig import Chosen

try:
    import urllib3.exceptions
    import yaml
    from kubernetes import client, config
    from kubernetes.config import incluster_config
    from kubernetes.config.exec_provider import ExecProvider
    from kubernetes.config.kube_config import ConfigNode
except ModuleNotFoundError as error:
    raise Misconfigured(
        f"{error.name} is not installed: install the extra `kn` to ask a cluster", field="--cluster"
    ) from error

CHANNELS = ("messaging.knative.dev", "v1alpha1", "natsjetstreamchannels")
SUBSCRIPTIONS = ("messaging.knative.dev", "v1", "subscriptions")
SECONDS = 30.0
# The longest text of others that is quoted.
LONGEST_WORDS = 1000
UNUSABLE = (config.ConfigException, OSError, ValueError)
# The exceptions that escape the client when another program than an API server answers.
STRANGE = (ValueError, TypeError, LookupError, AttributeError, RecursionError)
USER_FILES = ("client-certificate", "client-key", "tokenFile")
IN_CLUSTER = (incluster_config.SERVICE_CERT_FILENAME,)
# The product whose documents say how each kind is installed.
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
        # A program that gives the credentials is run with the first call, and once more after a 401.
        self._by_program = False
        self._api: client.ApiClient | None = None
        # Otherwise the client is made anew when one of the files has changed.
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
                # The kubeconfig's owner has asked for it, and needs no warning with each request.
                urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
            user = self._chosen.user
            if user.get("exec") and not user.get("token") and not user.get("tokenFile"):
                self._by_program = True
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
        """Make the client of the files as they are by now; while they can't be used, the last good client stays."""
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
                if error.status == 401 and self._by_program and not again:
                    self._api = None
                    continue
                raise _refusal(error, kind, api.configuration.host) from error
            except (urllib3.exceptions.HTTPError, OSError) as error:
                problem = f"the API server at {api.configuration.host} does not answer: {_reason(error)}"
                raise Unavailable(f"{problem}; is that the cluster that is meant, and can it be reached?") from error
            except STRANGE as error:
                problem = f"{api.configuration.host} answers with what no API server says"
                raise Unavailable(f"{problem}: see to `server` in the kubeconfig") from error
        raise AssertionError("the second attempt answers or raises")

    async def _authenticated(self) -> client.ApiClient:
        self._made_anew()
        if self._api is None:
            self._api = await asyncio.to_thread(_by_program, self._chosen)
        return self._api


def _by_program(chosen: Chosen) -> client.ApiClient:
    """A client with the credentials that the kubeconfig's program gives.

    Raises:
        Unavailable: the program gives none.
        Misconfigured: the program is not installed, or the kubeconfig does not name one.
    """
    told = chosen.user["exec"]
    if not isinstance(told, Mapping) or not isinstance(told.get("command"), str):
        raise Misconfigured("the kubeconfig's users[].user.exec names no command", field="--kubeconfig")
    try:
        said = ExecProvider(ConfigNode("exec", told), None, ConfigNode("cluster", dict(chosen.cluster))).run()
        pem = {"client-certificate-data": "clientCertificateData", "client-key-data": "clientKeyData"}
        user = {name: base64.b64encode(said[data].encode()).decode() for name, data in pem.items() if said.get(data)}
        user |= {"token": said["token"].strip()} if said.get("token") else {}
        if not user:
            raise Unavailable(f"the program {told['command']!r} gave neither token nor clientCertificateData")
        return with_our_context(config.new_client_from_config_dict(_of_one_context(chosen.cluster, user)))
    except FileNotFoundError as error:
        hint = str(told.get("installHint") or "").strip() or "or give a token in the kubeconfig"
        problem = f"the kubeconfig authenticates with the program {told['command']!r}, which is not there"
        raise Misconfigured(f"{problem}: install it: {hint}", field="--kubeconfig") from error
    except config.ConfigException as error:
        raise Unavailable(f"the program {told['command']!r} gives no credentials: {error}") from error
    except (*STRANGE, OSError) as error:
        raise Misconfigured(
            f"the kubeconfig's users[].user.exec can't be used: {error}", field="--kubeconfig"
        ) from error


def _of_one_context(cluster: Mapping[str, Any], user: Mapping[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "cluster", "cluster": dict(cluster)}],
        "users": [{"name": "user", "user": user}],
        "contexts": [{"name": "context", "context": {"cluster": "cluster", "user": "user"}}],
        "current-context": "context",
    }


def _refusal(error: client.ApiException, kind: Kind, host: str) -> HeadraceError:
    """The error for the API server's answer, with the cure in its message."""
    try:
        words = str(json.loads(error.body)["message"])
    except (ValueError, KeyError, TypeError):
        # The answer is not from the part of the server that serves objects.
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
    """The first cause, in its own words: the errors that wrap it repeat the whole request."""
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
