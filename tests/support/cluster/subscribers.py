"""Subscribers: one in a pod hands its requests on to one on this machine, and the answers of the latter back."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

from infra.cluster.names import HEADRACE
from tests.faults.sink import Arrival, Say, http

RELAY = "relay"
# Whatever it is told is what it answers; with nothing but what the image of functions has.
_PROGRAM = """\
import http.client, http.server, os, signal, urllib.parse

to = urllib.parse.urlsplit(os.environ["TO"])


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"] or 0))
        there = http.client.HTTPConnection(to.hostname, to.port, timeout=30)
        headers = {name: text for name, text in self.headers.items() if name.lower() not in ("host", "connection")}
        there.request("POST", to.path, body, headers)
        answer = there.getresponse()
        answer.read()
        there.close()
        self.send_response(answer.status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *words):
        pass


signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
http.server.ThreadingHTTPServer.request_queue_size = 256
http.server.ThreadingHTTPServer(("0.0.0.0", 8080), Handler).serve_forever()
"""


def relay(namespace: str, name: str, to: str) -> str:
    """A Knative Service, which is at zero when there is nothing to do, and its program."""
    return f"""
apiVersion: v1
kind: ConfigMap
metadata: {{name: {RELAY}, namespace: {namespace}}}
data:
  relay.py: |
{textwrap.indent(_PROGRAM, "    ")}
---
apiVersion: serving.knative.dev/v1
kind: Service
metadata: {{name: {name}, namespace: {namespace}, labels: {{networking.knative.dev/visibility: cluster-local}}}}
spec:
  template:
    metadata:
      labels: {{app: {RELAY}}}
      annotations: {{autoscaling.knative.dev/window: "10s"}}
    spec:
      timeoutSeconds: 30
      containers:
        - image: {HEADRACE}
          command: [python, /relay/relay.py]
          env: [{{name: TO, value: "{to}"}}]
          ports: [{{containerPort: 8080}}]
          volumeMounts: [{{name: {RELAY}, mountPath: /relay}}]
      volumes: [{{name: {RELAY}, configMap: {{name: {RELAY}}}}}]
"""


def answering(type: str) -> Callable[[Arrival], Say]:
    """A subscriber whose answer is an event of that type, with the id of what it got."""

    def decide(arrival: Arrival) -> Say:
        headers = {"ce_specversion": "1.0", "ce_source": "/answer", "ce_type": type, "content_type": "application/json"}
        return Say(http(200, b'{"n": 2}', ce_id=arrival.id, **headers))

    return decide
