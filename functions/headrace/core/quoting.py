"""How values of strangers, and sentences about them, are kept short enough to be shown, and harmless. Pure.

A manifest, a header or a file may hold megabytes where a word belongs; an error that quotes it whole fills a terminal,
a log, a condition or an answer. It may also hold characters that a terminal obeys, or that turn the text around.
Called by every part that quotes.
"""

from __future__ import annotations

LONGEST_SENTENCE = 8192
"""Characters of an error message. Our own are far shorter; words of others may not be."""
# A message ends with what to do about it, so its end is kept.
_END = 1024
_QUOTED_LENGTH = 60


def quoted(value: object, most: int = _QUOTED_LENGTH) -> str:
    """A stranger's value as an error message may show it: escaped, in quotes if it is text, cut."""
    if isinstance(value, str):
        return repr(cut(value, most))
    return cut(repr(value), most)


def cut(text: str, most: int) -> str:
    """A text of at most so many characters; three dots stand for the rest."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def bounded(sentence: str) -> str:
    """A sentence whose middle is left out if it is longer than anybody would read."""
    left_out = len(sentence) - LONGEST_SENTENCE
    if left_out <= 0:
        return sentence
    return f"{sentence[: LONGEST_SENTENCE - _END]} … ({left_out} characters are left out) … {sentence[-_END:]}"


def plain(text: str) -> str:
    """A stranger's text on one line, without any character that a terminal obeys or that people can't see."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def plain_lines(text: str) -> str:
    """Several lines, each made plain."""
    return "\n".join(map(plain, text.split("\n")))
