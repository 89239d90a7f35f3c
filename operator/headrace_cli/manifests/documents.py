"""YAML files as documents that know where they come from.

This module knows YAML and its traps, but no kind of object. It is for `headrace_cli.laptop.file_channels`, and for the
verbs that read manifests.
"""

from __future__ import annotations

import codecs
import stat
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from headrace.core.errors import InvalidSpec
from headrace.core.quoting import quoted
from headrace_cli.manifests import json_values

SUFFIXES = (".yaml", ".yml", ".json")
_APPLE_DOUBLE = b"\x00\x05\x16\x07"
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# The exceptions that escape PyYAML when a tag does not fit its value, as in `!!bool maybe`, or a key is a list.
_LEAKS = (ValueError, TypeError, LookupError, AttributeError, RecursionError)


@dataclass(frozen=True, slots=True)
class Document:
    """One object of a file; `where` names file, line and document for people, as in `orders.yaml:14, document 2`."""

    where: str
    body: dict[str, Any]

    def fault(self, message: str, *, field: str) -> InvalidSpec:
        """An error that names this document."""
        return InvalidSpec(f"{self.where}: {message}", field=field)


class _Loader(yaml.SafeLoader):
    """YAML as Kubernetes reads it: times stay text, and a key given twice is a mistake."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if key_node.value in seen and key_node.tag != "tag:yaml.org,2002:merge":
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {quoted(key_node.value)} is given twice", key_node.start_mark
                )
            if isinstance(key_node.value, str):
                seen.add(key_node.value)
        return super().construct_mapping(node, deep=deep)


_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_files(paths: Sequence[str]) -> list[Document]:
    """All documents of files and directories, in order; a directory's files by name, without its subdirectories.

    Raises:
        InvalidSpec: a file can't be read, is no YAML, or holds values that JSON can't; the message names file and
            document.
    """
    return [
        document for path in paths for file in _files(Path(path)) for document in _documents(str(file), _text(file))
    ]


def parse_text(where: str, text: str) -> list[Document]:
    """All documents of a text that `where` names; raises as `read_files`."""
    return list(_documents(where, text))


def _files(path: Path) -> list[Path]:
    try:
        mode = path.stat().st_mode
        if stat.S_ISREG(mode):
            return [path]
        # Files are read again on SIGHUP, and a pipe or a device might never end.
        if not stat.S_ISDIR(mode):
            raise InvalidSpec(f"{path} is neither a file nor a directory: write the manifests to a file", field="-f")
        named = (file for file in path.iterdir() if file.suffix in SUFFIXES and file.is_file())
        files = sorted(file for file in named if not _is_of_macos(file))
    except OSError as error:
        raise _unreadable(path, error) from error
    if not files:
        raise InvalidSpec(f"{path} holds no {', '.join(SUFFIXES)} file: name the files", field="-f")
    return files


def _documents(name: str, text: str) -> Iterator[Document]:
    for where, body in _bodies(name, text):
        try:
            json_values.check(body)
        except InvalidSpec as error:
            raise InvalidSpec(f"{where}: {error}", field=error.field) from None
        yield from _objects(where, body)


def _is_of_macos(file: Path) -> bool:
    """Is it a file that macOS keeps beside another on foreign file systems and in archives (AppleDouble)?"""
    if not file.name.startswith("._"):
        return False
    with file.open("rb") as opened:
        return opened.read(len(_APPLE_DOUBLE)) == _APPLE_DOUBLE


def _text(file: Path) -> str:
    try:
        data = file.read_bytes()
        if data.startswith(_APPLE_DOUBLE):
            cure = "name the file without ._ in front, and delete this one"
            raise InvalidSpec(
                f"{file} is what macOS keeps beside a file (AppleDouble), no manifest: {cure}", field="-f"
            )
        # UTF-16 is recognised also without its mark: YAML has no NUL, and in UTF-16 every other byte of ASCII is one.
        if data.startswith(_UTF_16) or b"\0" in data[:4]:
            cure = "save it as UTF-8; in PowerShell, `… | Out-File -Encoding utf8 FILE` in place of `… > FILE`"
            raise InvalidSpec(f"{file} is in UTF-16 or UTF-32, as PowerShell's > writes: {cure}", field="-f")
        return data.decode()
    except OSError as error:
        raise _unreadable(file, error) from error
    except UnicodeDecodeError as error:
        words = f"{file} is not in UTF-8 (byte {error.start} is 0x{data[error.start]:02x}): save it as UTF-8"
        raise InvalidSpec(words, field="-f") from error


def _bodies(name: str, text: str) -> Iterator[tuple[str, object]]:
    number = 0
    try:
        loader = _Loader(text)
        while loader.check_node():
            number += 1
            node = loader.get_node()
            # PyYAML counts lines from 0.
            line = 1 if node is None else node.start_mark.line + 1
            yield f"{name}:{line}, document {number}", loader.construct_document(node)
    except (yaml.YAMLError, *_LEAKS) as error:
        raise InvalidSpec(f"{name}, document {max(number, 1)}: this is not YAML: {error}", field="-f") from error


def _unreadable(path: Path, error: Exception) -> InvalidSpec:
    words = error.strerror if isinstance(error, OSError) else None
    return InvalidSpec(f"{path} can't be read: {words or error}", field="-f")


def _objects(where: str, body: object) -> Iterator[Document]:
    if body is None:
        return
    if not isinstance(body, dict):
        raise InvalidSpec(f"{where}: {str(body)[:80]!r} is no Kubernetes object", field="-f")
    if body.get("kind") != "List":
        yield Document(where, body)
        return
    items = body.get("items") or []
    if not isinstance(items, list):
        raise InvalidSpec(f"{where}: items is {str(items)[:80]!r}: it should be a list", field="items")
    for index, item in enumerate(items):
        yield from _objects(f"{where}, items[{index}]", item)
