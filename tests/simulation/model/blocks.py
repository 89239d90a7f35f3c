"""Header blocks as the server reads and extends them: by exact names, and as bytes."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

_PLAIN = b"NATS/1.0\r\n"


def value(block: bytes, name: str) -> str:
    """The first value of this exact name; empty without one."""
    start = block.find(b"\r\n%b:" % name.encode())
    if start < 0:
        return ""
    start += len(name) + 3
    return block[start : block.find(b"\r\n", start)].decode("utf-8", "surrogateescape").lstrip(" \t")


def has(block: bytes, name: str) -> bool:
    return block.find(b"\r\n%b:" % name.encode()) >= 0


def added(block: bytes, *lines: tuple[str, object]) -> bytes:
    """The block with more lines at its end."""
    more = "".join(f"{name}: {value}\r\n" for name, value in lines).encode("utf-8", "surrogateescape")
    return (block[:-2] if block else _PLAIN) + more + b"\r\n"


def status(code: int, words: str, *lines: tuple[str, object]) -> bytes:
    """A block of a status alone."""
    more = "".join(f"{name}: {value}\r\n" for name, value in lines)
    return f"NATS/1.0 {code} {words}\r\n{more}\r\n".encode("utf-8", "surrogateescape")


def without_status(block: bytes) -> bytes:
    """The server stores no status that a client sends."""
    end = block.find(b"\r\n")
    return _PLAIN[:-2] + block[end:] if end > len(_PLAIN) - 2 else block


def moment(nanoseconds: int) -> str:
    """A time as Go writes it, with as many digits as it needs."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    text = _second(seconds)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{text}{fraction}Z"


@lru_cache(maxsize=256)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def from_moment(text: str) -> int:
    """Nanoseconds since the epoch of a time in RFC 3339."""
    whole, dot, rest = text.partition(".")
    if not dot:
        return int(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()) * 1_000_000_000
    digits = 0
    while digits < len(rest) and rest[digits].isdigit():
        digits += 1
    base = datetime.fromisoformat(whole + (rest[digits:].replace("Z", "+00:00") or "+00:00"))
    return int(base.timestamp()) * 1_000_000_000 + int(rest[:digits].ljust(9, "0")[:9])
