"""Knative's own tests pass with channels of ours; their results go to docs/conformance.md."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from infra.cluster import images, programs
from infra.cluster.instance import Cluster
from infra.cluster.names import of_program
from tests.support.cluster import conformance, curl_image
from tests.support.cluster.figures import DOCS, markdown, together, write
from tests.support.cluster.kubectl import Kubectl

pytestmark = pytest.mark.timeout(conformance.RUN_SECONDS + 120)
# To see that a receiver serves they run curl in an image from elsewhere: here it becomes one of ours.
POLICY = f"""\
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {{name: headrace-tests-curl}}
spec:
  matchConstraints: {{resourceRules: [{{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}}]}}
  matchConditions: [{{name: curl, expression: "object.spec.containers.exists(c, c.image.endsWith('/ubi8/ubi'))"}}]
  failurePolicy: Fail
  reinvocationPolicy: Never
  mutations:
    - patchType: JSONPatch
      jsonPatch:
        expression: >-
          [JSONPatch{{op: "replace", path: "/spec/containers/0/image", value: "{curl_image.NAME}"}},
           JSONPatch{{op: "replace", path: "/spec/containers/0/imagePullPolicy", value: "IfNotPresent"}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {{name: headrace-tests-curl}}
spec: {{policyName: headrace-tests-curl}}
"""


@pytest.fixture(scope="module")
def knative_tests(cluster: Cluster, kubectl: Kubectl) -> Iterator[Path]:
    """The compiled tests; the cluster has what they need, and Brokers and generic Channels make channels of ours."""
    programs.prepare(programs.CONFORMANCE)
    found = programs.found(programs.CONFORMANCE)
    for file in images.files([*images.of_conformance(), curl_image.image()]):
        images.load(cluster, file)
    kubectl.apply(POLICY)
    defaults = Path(__file__).resolve().parents[2] / "infra" / "knative"
    before = {
        name: kubectl.get("configmap", name)["data"] for name in ("default-ch-webhook", "config-br-default-channel")
    }
    for name, file in (("default-ch-webhook", "default-channel"), ("config-br-default-channel", "broker-channel")):
        kubectl("-n", "knative-eventing", "patch", "configmap", name, f"--patch-file={defaults / file}.yaml")
    yield found["rekt.test"]
    kubectl("delete", "--ignore-not-found", "-f", "-", given=POLICY)
    for name, data in before.items():
        kubectl.merge("configmap", name, {"data": data})


@pytest.mark.parametrize(
    ("name", "tests"),
    [
        pytest.param("channels", conformance.OF_CHANNELS, id="channels"),
        pytest.param("brokers", conformance.OF_BROKERS, id="brokers"),
    ],
)
def test_none_of_knatives_own_tests_fails(
    name: str, tests: Sequence[str], knative_tests: Path, cluster: Cluster, request: pytest.FixtureRequest
) -> None:
    if only := request.config.getoption("--only"):
        tests = [test for test in tests if test in only.split(",")]
    logs = cluster.logs / "conformance"
    used = {package: of_program(program) for package, program in conformance.PACKAGES.items()}
    rows = conformance.run(knative_tests, cluster.kubeconfig, tests, logs, used)
    cells = [*(row.cells() for row in rows), *conformance.not_run(name)]
    print(markdown(conformance.HEAD, cells))
    if request.config.getoption("--write"):
        write(name, together(name, conformance.HEAD, cells, DOCS / "conformance.md"), DOCS / "conformance.md")
    assert [row.test for row in rows if row.result in (conformance.FAILED, conformance.UNENDED)] == [], f"see {logs}"
