"""Specs of channels at random, most of them with one or two mistakes: both judges are asked about them.

Every value stands in a pool of its field; a draw takes a few fields and a value for each. Pure: the randomness is an
argument.
"""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

_GO = [
    *[
        "1s",
        "1h30m",
        "100ms",
        "1.5s",
        ".5s",
        "1.s",
        "0",
        "0s",
        "99ms",
        "1us",
        "0.6us",
        "1500ns",
        "100ns",
        "1h0m0s",
        "1ms1us1ns",
        "1µs",
        "876000h",
        "876000h1ns",
    ],
    *["PT1H", "-1s", "876001h", "999999h", "9999999h", "1m1h", "1s1s", "1d", "s"],
    *("", "1 h", 5, True),
]
_ISO = [
    *[
        "PT1S",
        "PT0.5S",
        "PT.5S",
        "P1D",
        "P1DT1H",
        "PT1H2M3S",
        "P0DT5S",
        "PT0S",
        "PT9M",
        "PT540S",
        "PT540.000001S",
        "PT541S",
    ],
    *["PT1.S", "P", "PT", "P1DT", "1s", "P1W", "PT0.0000001S", "PT9999999H", "pt1s"],
    *("", 5),
]
_TIME = ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.123456789Z", "2026-01-01T00:00:00+01:00", "2026-02-30T00:00:00Z",
         "2026-01-01", "2026-01-01 00:00:00Z", "2026-01-01T24:00:00Z", "2026-01-01T00:00:00", "20260101T000000Z",
         "0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00", "2026-01-01T00:00:60Z", "", 5]  # fmt: skip
_SEQUENCE = [0, 1, 12, "12", "012", "0", "", -1, "-1", "x", "9" * 18, "9" * 19, 2**63 - 1, 2**63, True]
_LIMIT = [0, -1, 1, 2**31 - 1, 2**31, 2**40, 2**63 - 1, 2**63, -2, "5", 1.5, True]
_FLAG = [True, False, True, "yes", 1]
_SUBJECT = ["a", "a.b", "orders.>", "a.*.b", "$x", "ä.b", "", "a b", "a..b", ".a", "a.", "a\tb", 5]
_LABELS = [{}, {"a": "b"}, {"a": ""}, {"headrace.dev/x": "y"}, {"_nats.x": "y"}, {"a": 5}, {"a": "x" * 1025}, "x"]
_REPLICAS = [0, 1, 3, 5, 6, -1]
_TRANSFORM = [{"source": "a", "destination": "b"}, {"source": "a"}, {"source": "a b", "destination": "b"}]
_ORIGIN = [
    {"name": "A"},
    {"name": "A", "optStartSeq": "5"},
    {"name": "A", "optStartTime": "2026-01-01T00:00:00Z", "filterSubject": "a"},
    {"name": "A", "subjectTransforms": [{"source": "a", "destination": "b"}]},
    {"name": "A", "filterSubject": "a", "subjectTransforms": [{"source": "a", "destination": "b"}]},
    {"name": "A", "external": {"apiPrefix": "$JS.hub.API"}},
    {"name": "A", "external": {}},
    {"name": "A", "optStartSeq": -1},
    {},
    "A",
]

STREAM: dict[str, list[Any]] = {
    "additionalSubjects": [[], ["a"], ["a", "b.>"], [""], ["a b"], "a", [5]],
    "retention": ["Limits", "Interest", "Work", "", "limits", "WorkQueue", 5],
    "maxConsumers": _LIMIT,
    "maxMsgs": _LIMIT,
    "maxBytes": _LIMIT,
    "maxMsgsPerSubject": _LIMIT,
    "discard": ["Old", "New", "", "old", 5],
    "discardNewPerSubject": _FLAG,
    "maxAge": _GO,
    "maxMsgSize": _LIMIT,
    "storage": ["File", "Memory", "Memory", "", "disk"],
    "replicas": _REPLICAS,
    "noAck": [False, False, True],
    "template": ["", "a", 5],
    "duplicateWindow": _GO,
    "placement": [{}, {"cluster": "c"}, {"tags": ["a", ""]}, {"tags": "a"}, {"cluster": 5}, "x"],
    "mirror": _ORIGIN,
    "sources": [[], [_ORIGIN[0]], _ORIGIN[:3], [{}], "x"],
    "compression": ["None", "S2", "", "s2"],
    "denyDelete": _FLAG,
    "denyPurge": _FLAG,
    "sealed": [False, False, True],
    "allowDirect": _FLAG,
    "mirrorDirect": _FLAG,
    "allowRollup": _FLAG,
    "subjectTransform": _TRANSFORM,
    "republish": [{"destination": "b.>"}, {"source": "a", "destination": "b", "headersOnly": True}, {}, "x"],
    "firstSeq": _SEQUENCE,
    "metadata": _LABELS,
    "consumerLimits": [{}, {"maxAckPending": 0}, {"maxAckPending": 5}, {"inactiveThreshold": "1m"}],
    "allowMsgTTL": _FLAG,
    "subjectDeleteMarkerTTL": ["", "5s"],
    "allowMsgSchedules": _FLAG,
    "allowAtomic": _FLAG,
    "allowBatched": _FLAG,
    "persistMode": ["Default", "Async", "Async", "", "async"],
}
TEMPLATE: dict[str, list[Any]] = {
    "deliverPolicy": ["All", "Last", "New", "ByStartSequence", "ByStartTime", "ByStartTime", "", "all"],
    "optStartSeq": _SEQUENCE,
    "optStartTime": _TIME,
    "ackWait": _GO,
    "maxDeliver": [0, -1, 5, "5"],
    "filterSubject": _SUBJECT,
    "filterSubjects": [[], ["a"], ["a", "b"], ["a b"], "a"],
    "replayPolicy": ["Instant", "Original", "", "original"],
    "rateLimitBPS": [0, 1, 2**40, -1, "5"],
    "rateLimitBps": [0, 1, -1],
    "sampleFrequency": ["", "0", "30", "30%", "100%", "101", "%", "-1", "3.5", 30],
    "maxAckPending": [0, -1, 5, 6, 2**31, -2],
    "consumerType": ["Push", "Pull", "", "pull"],
    "fetchMaxWait": _GO,
    "fetchBatchSize": [1, 32, 0, -1, 2**31],
    "idleHeartbeat": _GO,
    "replicas": _REPLICAS,
    "metadata": _LABELS,
    "headersOnly": [True, False],
    "backoff": [["1s"], []],
    "maxWaiting": [5],
    "inactiveThreshold": ["", "5s"],
    "memStorage": [True],
    "pauseUntil": ["", "2026-01-01T00:00:00Z"],
    "priorityPolicy": ["", "overflow"],
    "priorityGroups": [["a"]],
}
DELIVERY: dict[str, list[Any]] = {
    "deadLetterSink": [
        {"uri": "http://a"},
        {"ref": {"kind": "Service", "name": "a", "apiVersion": "v1", "namespace": "", "group": "", "address": "x"}},
        {"ref": {"kind": "Service"}},
        {"ref": "x"},
        {"uri": 5},
        {"uri": "http://me:secret@a/"},
        {"uri": "http://a/me@b"},
        {"uri": "http://a?me@b"},
        {"uri": "//me@b"},
        {"uri": "x" * 4097},
        {"CACerts": "PEM", "audience": "a"},
    ],
    "retry": [0, 1, 1_000_000, 1_000_001, -1, "3", 1.5],
    "timeout": _ISO,
    "backoffPolicy": ["linear", "exponential", "", "none"],
    "backoffDelay": _ISO,
    "retryAfterMax": _ISO,
    "format": ["json", "binary", "", "xml"],
}
POD: dict[str, list[Any]] = {
    "annotations": [{}, {"a": "b"}, {"a": 5}],
    "labels": [{"a": ""}, "x"],
    "nodeSelector": [{"a": "b"}, {"a": True}],
    "resources": [
        {},
        {"limits": {"cpu": 1, "memory": "1Gi"}},
        {"requests": {"cpu": "100m"}},
        {"limits": {"cpu": "lots"}},
        {"limits": {"cpu": 1.5}},
    ],
    "affinity": [
        {},
        {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}},
        {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}},
        {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 0, "podAffinityTerm": {}}]}},
    ],
    "tolerations": [[], [{"key": "a", "operator": "Exists"}], [{"effect": "Never"}], [{"tolerationSeconds": 5}]],
    "priorityClassName": ["", "high", 5],
    "imagePullSecrets": [[{"name": "a"}], [{}]],
}
CONNECTION: dict[str, list[Any]] = {
    "secretRef": [
        {"name": "orders-nats"},
        {"name": "a.b-c"},
        {"name": "A"},
        {"name": "-a"},
        {"name": "x" * 254},
        {},
        "x",
        5,
    ]
}
OVERRIDE: list[Any] = ["", "ORDERS", "a-b_c", "a.b", "a b", "x" * 200, "x" * 201, 5]


def spec(random: Random) -> dict[str, Any]:
    """One spec: a handful of fields, often of one part, so that rules between fields are met."""
    drawn: dict[str, Any] = {}
    for name, pool in (("consumerConfigTemplate", TEMPLATE), ("delivery", DELIVERY), ("deploymentSpecTemplate", POD)):
        if random.random() < 0.4:
            drawn[name] = _fields(random, pool)
    if random.random() < 0.7:
        drawn["stream"] = {"config": _fields(random, STREAM)}
        if random.random() < 0.3:
            drawn["stream"]["overrideName"] = random.choice(OVERRIDE)
    if random.random() < 0.1:
        drawn["connection"] = {"secretRef": random.choice(CONNECTION["secretRef"])}
    if random.random() < 0.05:
        drawn[random.choice(["stream", "delivery", "consumerConfigTemplate"])] = random.choice([None, {}, "x", 5])
    return drawn


def single_values() -> list[dict[str, Any]]:
    """Every value of every pool, each alone."""
    found: list[dict[str, Any]] = [{"stream": {"overrideName": value}} for value in OVERRIDE]
    found += [{"stream": {"config": {name: value}}} for name, pool in STREAM.items() for value in pool]
    for part, fields in (
        ("consumerConfigTemplate", TEMPLATE),
        ("delivery", DELIVERY),
        ("deploymentSpecTemplate", POD),
        ("connection", CONNECTION),
    ):
        found += [{part: {name: value}} for name, pool in fields.items() for value in pool]
    starts = {"optStartTime": "ByStartTime", "optStartSeq": "ByStartSequence"}
    found += [
        {"consumerConfigTemplate": {"deliverPolicy": policy, name: value}}
        for name, policy in starts.items()
        for value in TEMPLATE[name]
    ]
    return found


def _fields(random: Random, pools: dict[str, list[Any]]) -> dict[str, Any]:
    names = random.sample(list(pools), random.randint(0, 4))
    # The first values of a pool are good ones: with every draw even, hardly a spec would be accepted.
    return {name: random.choice(pools[name][:3] if random.random() < 0.8 else pools[name]) for name in names}


# A value of each field that a rule between fields is about, with which the rule has something to say.
TELLING: list[tuple[str, str, Any]] = [
    ("stream", "mirror", {"name": "A"}),
    ("stream", "additionalSubjects", ["a"]),
    ("stream", "sources", [{"name": "B"}]),
    ("stream", "firstSeq", 5),
    ("stream", "allowAtomic", True),
    ("stream", "allowMsgSchedules", True),
    ("stream", "mirrorDirect", True),
    ("stream", "maxAge", "1m"),
    ("stream", "duplicateWindow", "90s"),
    ("stream", "discardNewPerSubject", True),
    ("stream", "discard", "New"),
    ("stream", "maxMsgsPerSubject", 5),
    ("stream", "allowRollup", True),
    ("stream", "denyPurge", True),
    ("stream", "persistMode", "Async"),
    ("stream", "storage", "Memory"),
    ("stream", "consumerLimits", {"maxAckPending": 5}),
    ("consumers", "maxAckPending", 5),
    ("consumers", "maxAckPending", 6),
    ("consumers", "filterSubject", "a"),
    ("consumers", "filterSubjects", ["b"]),
    ("consumers", "rateLimitBPS", 1),
    ("consumers", "rateLimitBps", 1),
    ("consumers", "deliverPolicy", "ByStartSequence"),
    ("consumers", "deliverPolicy", "ByStartTime"),
    ("consumers", "optStartSeq", "5"),
    ("consumers", "optStartTime", "2026-01-01T00:00:00Z"),
]


def combinations() -> list[dict[str, Any]]:
    """All pairs and triples of those."""
    found = []
    for size in (2, 3):
        for chosen in itertools.combinations(TELLING, size):
            stream = {name: value for part, name, value in chosen if part == "stream"}
            template = {name: value for part, name, value in chosen if part == "consumers"}
            found.append({"stream": {"config": stream}, "consumerConfigTemplate": template})
    return found
