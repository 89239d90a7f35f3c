"""Manifests of other systems become manifests of Knative and of this channel; pure.

Each kind has one function from an object to objects and notes. What has no equal becomes a note, never a guess. This
room knows shapes of other systems, and asks nobody; only the command `convert` imports it.
"""

from headrace_cli.convert.conversion import Conversion, Note, convert

__all__ = ["Conversion", "Note", "convert"]
