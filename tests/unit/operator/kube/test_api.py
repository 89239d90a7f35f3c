"""An answer of the API server that is no success is one of our errors."""

from __future__ import annotations

import json

import pytest

from headrace.core.errors import HeadraceError, Refused, Unavailable
from headrace_operator.kube.api import FAILED_TEST, Conflict, Expired, NoRight, refusal

# As Kubernetes 1.36 writes them.
LACKS = (
    'deployments.apps "x" is forbidden: User "system:serviceaccount:a:b" cannot patch resource "deployments" in API '
    'group "apps" in the namespace "shop"'
)
QUOTA = 'pods "x" is forbidden: exceeded quota: small, requested: pods=1, used: pods=1, limited: pods=1'


@pytest.mark.parametrize(
    ("status", "text", "error"),
    [
        pytest.param(409, '{"message": "modified"}', Conflict, id="conflict"),
        pytest.param(422, json.dumps({"message": FAILED_TEST}), Conflict, id="a patch's test"),
        pytest.param(422, '{"message": "spec is invalid"}', Refused, id="invalid"),
        pytest.param(410, '{"message": "too old"}', Expired, id="forgotten"),
        pytest.param(403, '{"message": "forbidden"}', Refused, id="forbidden"),
        pytest.param(403, json.dumps({"message": LACKS}), NoRight, id="a right is lacking"),
        pytest.param(403, json.dumps({"message": QUOTA}), Refused, id="a quota is used up"),
        pytest.param(429, "slow down", Unavailable, id="too many"),
        pytest.param(500, "", Unavailable, id="broken"),
    ],
)
def test_what_the_api_server_says(status: int, text: str, error: type[HeadraceError]) -> None:
    assert type(refusal("GET", "/x", status, text)) is error
