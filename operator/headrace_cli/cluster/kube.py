"""The port over Kubernetes' own Python client: it knows every way in which a kubeconfig may authenticate.

Imported when a verb is told to ask a cluster, since that takes a second. Its calls block, so each is made on a thread.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from headrace.core.errors import HeadraceError, Misconfigured, Refused, Unavailable
from headrace_cli.cluster.objects import Object

try:
    import urllib3.exceptions
    from kubernetes import client, config
except ModuleNotFoundError as error:
    raise Misconfigured(
        f"{error.name} is not installed: install the extra `kn` to ask a cluster", field="--cluster"
    ) from error

CHANNELS = ("messaging.knative.dev", "v1alpha1", "natsjetstreamchannels")
SUBSCRIPTIONS = ("messaging.knative.dev", "v1", "subscriptions")
SECONDS = 30.0

Answer = TypeVar("Answer")


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
        try:
            if file is None and context is None and not _has_config():
                config.load_incluster_config()
                self._api, self.namespace = client.ApiClient(), "default"
            else:
                self._api = config.new_client_from_config(config_file=file, context=context)
                self.namespace = _namespace(file, context)
        except (config.ConfigException, OSError, ValueError, KeyError, TypeError) as error:
            where = file or "the kubeconfig"
            raise Misconfigured(f"{where} can't be used: {error}", field="--kubeconfig") from error
        self._objects = client.CustomObjectsApi(self._api)

    async def channels(self, namespace: str | None) -> list[Object]:
        return await self._list(CHANNELS, namespace)

    async def channel(self, namespace: str, name: str) -> Object | None:
        group, version, plural = CHANNELS
        try:
            return await _call(
                lambda: self._objects.get_namespaced_custom_object(
                    group, version, namespace, plural, name, _request_timeout=SECONDS
                )
            )
        except Refused as error:
            if error.status == 404:
                return None
            raise

    async def create_channel(self, channel: Mapping[str, Any]) -> Object:
        return await self._create(CHANNELS, channel)

    async def create_subscription(self, subscription: Mapping[str, Any]) -> Object:
        return await self._create(SUBSCRIPTIONS, subscription)

    async def _create(self, kind: tuple[str, str, str], body: Mapping[str, Any]) -> Object:
        group, version, plural = kind
        namespace, options = body["metadata"]["namespace"], {"field_validation": "Strict"}
        return await _call(
            lambda: self._objects.create_namespaced_custom_object(
                group, version, namespace, plural, dict(body), _request_timeout=SECONDS, **options
            )
        )

    async def delete_channel(self, namespace: str, name: str) -> None:
        group, version, plural = CHANNELS
        await _call(
            lambda: self._objects.delete_namespaced_custom_object(
                group, version, namespace, plural, name, _request_timeout=SECONDS
            )
        )

    async def subscriptions(self, namespace: str | None) -> list[Object]:
        return await self._list(SUBSCRIPTIONS, namespace)

    async def _list(self, kind: tuple[str, str, str], namespace: str | None) -> list[Object]:
        group, version, plural = kind

        def ask() -> Object:
            if namespace is None:
                found = self._objects.list_cluster_custom_object(group, version, plural, _request_timeout=SECONDS)
            else:
                found = self._objects.list_namespaced_custom_object(
                    group, version, namespace, plural, _request_timeout=SECONDS
                )
            return dict(found)

        return list((await _call(ask))["items"])


async def _call(ask: Callable[[], Answer]) -> Answer:
    try:
        return await asyncio.to_thread(ask)
    except client.ApiException as error:
        raise _refusal(error) from error
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise Unavailable(f"the API server does not answer: {error}") from error


def _refusal(error: Any) -> HeadraceError:
    try:
        words = str(json.loads(error.body)["message"])
    except (ValueError, KeyError, TypeError):
        words = str(error.reason)
    status = int(error.status or 0)
    if status == 404 and "not found" in words and words.startswith("the server"):
        words = "the cluster knows no such kind: is Headrace's CRD installed?"
    if status == 0 or status == 429 or status >= 500:
        return Unavailable(f"the API server: {words}")
    return Refused(f"the API server: {words}", status=status)


def _has_config() -> bool:
    try:
        config.list_kube_config_contexts()
    except config.ConfigException:
        return False
    return True


def _namespace(file: str | None, context: str | None) -> str:
    contexts, current = config.list_kube_config_contexts(file)
    chosen = next((each for each in contexts if each["name"] == context), current)
    return str(chosen["context"].get("namespace") or "default")
