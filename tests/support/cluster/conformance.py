"""Knative's own tests (`knative.dev/eventing/test/rekt`) with channels of ours, and the table of what they said.

They are compiled as they are, and run against a cluster; which tests, and what is left out and why, stands here.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from tests.support.cluster.go_test_output import FAIL, PASS, SKIP, Output, Result, read

CHANNEL = {"CHANNEL_GROUP_KIND": "NatsJetStreamChannel.messaging.knative.dev", "CHANNEL_VERSION": "v1alpha1"}
SYSTEM = {"SYSTEM_NAMESPACE": "knative-eventing", "BROKER_CLASS": "MTChannelBasedBroker"}
PACKAGES = {
    "knative.dev/reconciler-test/cmd/eventshub": "eventshub",
    "knative.dev/eventing/cmd/heartbeats": "heartbeats",
}
# Each waits more than it computes, and two cores carry so many.
BESIDE = 3
STEP_SECONDS = 240
TEST_SECONDS = 1800
RUN_SECONDS = 5400

# Of channels; `Channel` alone is Knative's generic one, which here makes one of ours.
OF_CHANNELS = (
    "TestChannelConformance",
    "TestSmoke_Channel",
    "TestSmoke_ChannelImpl",
    "TestSmoke_ChannelWithSubscription",
    "TestSmoke_ChannelImplWithSubscription",
    "TestChannelChain",
    "TestChannelDeadLetterSink",
    "TestChannelDeadLetterSinkExtensions",
    "TestGenericChannelDeadLetterSink",
    "TestChannelAsyncHandler",
    "TestChannelPreferHeaderCheck",
    "TestEventTransformationForSubscriptionV1",
    "TestBinaryEventForChannel",
    "TestStructuredEventForChannel",
    "TestChannelImplSupportsOIDC",
)
# Of Knative's MT Broker, whose channels here are ours.
OF_BROKERS = (
    "TestBrokerConformance",
    "TestBrokerWithManyTriggers",
    "TestBrokerWorkFlowWithTransformation",
    "TestBrokerAsMiddleware",
    "TestBrokerWithDLQ",
    "TestBrokerWithFlakyDLQ",
    "TestBrokerDefaultDelivery",
    "TestBrokerPreferHeaderCheck",
    "TestBrokerRedelivery",
    "TestBrokerPropagatesMetadata",
    "TestBrokerDeadLetterSinkExtensions",
    "TestBrokerDeliverLongMessage",
    "TestBrokerDeliverLongResponseMessage",
    "TestBrokerTriggerWithDeliveryTimeout",
    "TestBrokerTriggerCrossNamespaceReference",
    "TestDeliveryTimeout",
    "TestMTChannelBrokerNewTriggerFilters",
    "TestMultiTriggerTopology",
    "TestSmoke_Broker",
    "TestSmoke_Trigger",
    "TestTriggerDefaulting",
    "TestTriggerDeliveryFormat",
    "TestTriggerWithDLS",
)
# What they need is nowhere on the cluster; the first kind ends a whole run where it is not installed.
_CERTIFICATES, _SOURCE = "needs cert-manager", "needs a PingSource"
_WITHOUT = {
    "channels": (
        "TestInMemoryChannelTLS",
        "TestInMemoryChannelRotateIngressTLSCertificate",
        "TestChannelImplDispatcherAuthenticatesWithOIDC",
        "TestChannelImplSupportsAuthZ",
        "TestChannelSupportsAuthZ",
    ),
    "brokers": (
        "TestMTChannelBrokerRotateTLSCertificates",
        "TestBrokerSupportsOIDC",
        "TestBrokerSendsEventsWithOIDCSupport",
        "TestBrokerSupportsAuthZ",
        "TestTriggerTLSSubscriber",
    ),
}
NOT_RUN = {name: dict.fromkeys(tests, _CERTIFICATES) for name, tests in _WITHOUT.items()}
NOT_RUN["brokers"]["TestTriggerDependencyAnnotation"] = _SOURCE
HEAD = ("test", "result", "MUST", "SHOULD", "MAY", "nothing checked", "s", "words")
FAILED, UNENDED = "**FAIL**", "not ended"
_UNWRITTEN = "TODO, Implement this."
_UNMET = "Prerequisite: "
_SUMMARY = re.compile(r"^Skipping steps for timing \w+ due to failed previous timing$")


@dataclass(frozen=True, slots=True)
class Row:
    """What one test function said.

    Attributes:
        steps: by level, how many of the steps that assert something ended so: ("MUST", "PASS") -> 12.
        unwritten: passed steps whose check nobody has written yet.
        words: why it failed or was skipped, in the test's own words.
    """

    test: str
    result: str
    seconds: float
    steps: Mapping[tuple[str, str], int]
    unwritten: int
    words: Sequence[str]

    def cells(self) -> tuple[object, ...]:
        levels = [_share(self.steps, *names) for names in (("MUST", "MUST NOT"), ("SHOULD", "SHOULD NOT"), ("MAY",))]
        words = "; ".join(dict.fromkeys(self.words))[:300]
        return (f"`{self.test}`", self.result, *levels, self.unwritten or "", round(self.seconds), words)


def run(program: Path, kubeconfig: Path, tests: Sequence[str], logs: Path, images: Mapping[str, str]) -> list[Row]:
    """Run these tests, each in a process of its own, since some end theirs, and say how each ended.

    Args:
        program: the compiled tests.
        logs: a folder for all that they print.
        images: by the package's path.
    """
    logs.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(BESIDE) as beside:
        made = Path(folder) / "images.yaml"
        made.write_text("".join(f"{package}: {image}\n" for package, image in images.items()), encoding="ascii")
        words = [str(program), "-test.v", f"-test.timeout={TEST_SECONDS}s", f"-test.parallel={BESIDE}"]
        words += [f"-images.producer.file={made}", "-teardown.on.fail"]
        words += [f"-poll.timeout={STEP_SECONDS}s", "-poll.interval=1s"]
        environment = {**os.environ, **SYSTEM, **CHANNEL, "KUBECONFIG": str(kubeconfig)}

        def run_one(test: str) -> Row:
            log = logs / f"{test}.log"
            with log.open("w", encoding="utf-8") as printed:
                command = [*words, f"-test.run=^{test}$"]
                subprocess.run(
                    command, stdout=printed, stderr=subprocess.STDOUT, env=environment, cwd=folder, check=False
                )
            with log.open(encoding="utf-8", errors="replace") as lines:
                return row(read(lines), test)

        first = list(beside.map(run_one, tests))
        return [one if one.result != FAILED else again(one, run_one(one.test)) for one in first]


def again(first: Row, second: Row) -> Row:
    """What is told of a test that failed and was run once more, alone: some of them look once, without waiting."""
    if second.result == FAILED:
        return second
    return replace(second, words=[f"at the second try; at the first: {'; '.join(first.words)}", *second.words])


def not_run(name: str) -> list[tuple[object, ...]]:
    """The cells of the tests of this group that are not run, and why."""
    return [(f"`{test}`", "not run", "", "", "", "", "", why) for test, why in NOT_RUN[name].items()]


def row(output: Output, test: str) -> Row:
    """How it ended; a test that is nowhere in the output has failed."""
    leaves = [one for one in output.leaves() if one.test == test]
    steps: Counter[tuple[str, str]] = Counter()
    unwritten = 0
    for one in leaves:
        if step := one.step("Assert"):
            if one.how == PASS and one.words and one.words[-1] == _UNWRITTEN:
                unwritten += 1
            else:
                steps[output.levels.get(step, "MUST"), one.how] += 1
    whole = output.results.get(test, Result(test, FAIL, words=["was not run"]))
    result = {PASS: "pass", FAIL: FAILED, SKIP: "skip"}[whole.how]
    if output.out_of_time:
        # Go tells how parts ended once the whole has.
        return Row(test, UNENDED, TEST_SECONDS, {}, 0, ["its time was over"])
    unmet = [_needed(one) for one in leaves if _needed(one)]
    if whole.how == PASS and unmet and not steps:
        result = "skip"
    return Row(test, result, whole.seconds, steps, unwritten, unmet or _words(whole, leaves))


def _words(whole: Result, leaves: Sequence[Result]) -> list[str]:
    words = [word for one in leaves if one.how != PASS for word in one.words[-1:] if not _SUMMARY.match(word)]
    return words or whole.words[-1:] if whole.how != PASS else []


def _needed(one: Result) -> str:
    """What a feature needs of the cluster before it begins, and does not have."""
    unmet = any(word.startswith(_UNMET) for word in one.words)
    return f"needs: {one.step('Prerequisite').replace('_', ' ')}" if unmet and one.step("Prerequisite") else ""


def _share(steps: Mapping[tuple[str, str], int], *levels: str) -> str:
    passed = sum(steps.get((level, PASS), 0) for level in levels)
    whole = sum(count for (level, _), count in steps.items() if level in levels)
    return f"{passed}/{whole}" if whole else ""
