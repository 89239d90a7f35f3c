"""HTTP/1.1 as the harness speaks it: the head and the body of a message, cut from bytes as they come."""

from __future__ import annotations

from typing import NamedTuple


class Whole(NamedTuple):
    """One message; names of headers in lower case."""

    line: str
    headers: dict[str, str]
    body: bytes


class Reader:
    """Cuts messages with a content-length from bytes."""

    def __init__(self) -> None:
        self._kept = b""

    def feed(self, data: bytes) -> list[Whole]:
        """The messages that are whole with these bytes."""
        self._kept += data
        found = []
        while (end := self._kept.find(b"\r\n\r\n")) >= 0:
            lines = self._kept[:end].decode("latin-1").split("\r\n")
            pairs = (line.partition(":") for line in lines[1:])
            headers = {name.lower(): value.strip() for name, _, value in pairs}
            if "transfer-encoding" in headers:
                raise NotImplementedError("a body in chunks")
            size = int(headers.get("content-length", 0))
            if len(self._kept) < end + 4 + size:
                break
            found.append(Whole(lines[0], headers, self._kept[end + 4 : end + 4 + size]))
            self._kept = self._kept[end + 4 + size :]
        return found


def render(line: str, headers: dict[str, str], body: bytes = b"") -> bytes:
    words = [line, *(f"{name}: {value}" for name, value in headers.items()), f"content-length: {len(body)}"]
    return "\r\n".join(words).encode("latin-1") + b"\r\n\r\n" + body
