"""A place in a document that a program fills: what stands between `<!-- NAME: … -->` and `<!-- /NAME -->`.

Pure. A name has one place in a document. The generators of documents use it, and so do the bench and the tests that
write down what they have measured.
"""

from __future__ import annotations

import re


def filled(document: str, name: str, text: str) -> str:
    """The document with a text in the place of that name.

    Raises:
        ValueError: the document has no such place, or more than one.
    """
    start, end = _place(document, name)
    return f"{document[:start]}{text.rstrip()}\n{document[end:]}"


def content(document: str, name: str) -> str:
    """What stands in the place of that name.

    Raises:
        ValueError: as `filled`.
    """
    start, end = _place(document, name)
    return document[start:end]


def _place(document: str, name: str) -> tuple[int, int]:
    marks = rf"^<!-- {re.escape(name)}: [^\n]* -->\n(.*?)^<!-- /{re.escape(name)} -->$"
    found = list(re.finditer(marks, document, re.DOTALL | re.MULTILINE))
    if len(found) != 1:
        raise ValueError(
            f"the document has {len(found)} places named {name}, not one: <!-- {name}: … --><!-- /{name} -->"
        )
    return found[0].span(1)
