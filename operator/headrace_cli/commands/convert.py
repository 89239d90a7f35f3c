"""The words of `convert`."""

from __future__ import annotations

from typing import Any

from headrace_cli.commands import params

CONVERT = """\
Turn manifests of other systems into channels, Brokers, Triggers and Subscriptions: Kyma's Subscriptions and Eventing,
Argo's EventBus, EventSource and Sensor, and Knative's other channels. Standard error names the parts without an
equal, and those that you have to see to; with --strict the exit status is 1 when a part had no equal.

examples:
  kn jetstream convert -f old.yaml > new.yaml
  kn jetstream convert -f old.yaml --suffix=-js > new.yaml        Subscriptions beside the old ones
  kn jetstream convert -f subscriptions.yaml -f eventing.yaml -o json
  kubectl get sensors,eventbus -A -o yaml | kn jetstream convert -f - --strict > new.yaml
"""


def _convert(**given: Any) -> int:
    from headrace_cli.commands.actions import convert

    return convert.convert_files(given)


COMMAND = params.Words(CONVERT, "Convert manifests of other systems.").command(
    "convert",
    _convert,
    [
        params.value(
            "-f --file files",
            "FILE",
            "Manifest file or directory; - for standard input. Repeatable.",
            multiple=True,
            required=True,
        ),
        params.value(
            "--suffix",
            "TEXT",
            "Append it to the names of Subscriptions, so that old and new ones deliver side by side.",
            default="",
        ),
        params.flag("--strict", "Fail when a part has no equal."),
        params.output("yaml", "json"),
    ],
)
