"""The answers of the filter of Knative's MT Broker, which stands in for a Trigger's subscriber.

To a channel the filter is the subscriber. When the Trigger's own subscriber fails, the filter answers with that
subscriber's status, and with a JSON object of its address and its answer. The dead letter sink should hear of the
subscriber, not of the filter. Source: knative/eventing v0.50.0, pkg/broker/err_extension.go and
pkg/kncloudevents/event_dispatcher.go. Pure.
"""

from __future__ import annotations

import base64
import binascii
import json
from urllib.parse import urlsplit

from headrace.core.errors import InvalidSpec
from headrace.core.event.uri import checked_uri

# A filter's answer holds an address and at most 1024 bytes of the subscriber's answer, in base64.
LONGEST = 4096
_NAME, _SERVICE = "broker-filter", "svc"


def behind(address: str, body: bytes) -> tuple[str, bytes] | None:
    """Address and answer of the subscriber behind a filter; None when `address` is no filter or it says nothing."""
    if not _is_filter(address):
        return None
    try:
        said = json.loads(body)
        destination, answer = said["errdestination"], said.get("errresponsebody") or ""
        return checked_uri(destination, field="errdestination"), base64.b64decode(answer, validate=True)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, binascii.Error, InvalidSpec):
        return None


def _is_filter(address: str) -> bool:
    name, _, rest = (urlsplit(address).hostname or "").partition(".")
    return name == _NAME and rest.split(".")[1:2] == [_SERVICE]
