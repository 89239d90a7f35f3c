"""Manifests of other systems as manifests of Knative and of this channel; pure.

Each kind has one function from a document to objects and notes. What has no equal becomes a note, never a guess.
Called by the command `convert`.
"""

from headrace_cli.convert.conversion import Converted, Note, convert, kinds

__all__ = ["Converted", "Note", "convert", "kinds"]
