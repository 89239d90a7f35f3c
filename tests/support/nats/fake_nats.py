"""NATS as the story of `reconcile` sees it, in memory: for tests of the order of its deeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headrace.core.installation.secret_names import SecretNames
from headrace.core.nats.action import Action, CreateConsumer, CreateStream, DeleteConsumer, DeleteStream, Done, Outcome
from headrace.core.raw_config import Config


class FakeNats:
    """Streams and consumers in memory; `says` may answer in the server's place."""

    def __init__(self, says: Callable[[Action], Outcome | None] = lambda _: None) -> None:
        self.streams: dict[str, Config] = {}
        self.bound: dict[str, Config] = {}
        self.actions: list[Action] = []
        self.noted: list[str] = []
        self.numbers: dict[str, int] = {}
        self.texts: dict[str, str] = {}
        self.first = 1
        self.last = 0
        self.since = 6
        self._says = says

    async def stream(self, name: str) -> Config | None:
        return self.streams.get(name)

    async def count(self, _stream: str, _subjects: str) -> int:
        return 0

    async def consumers(self, _stream: str) -> list[Config]:
        return list(self.bound.values())

    async def info(self, stream: str, _subjects: str = "") -> Mapping[str, Any] | None:
        config = self.streams.get(stream)
        if config is None:
            return None
        state = {
            "first_seq": self.first,
            "last_seq": self.last,
            "messages": 0,
            "bytes": 0,
            "subjects": dict.fromkeys(self.noted, 1),
        }
        return {"config": config, "state": state}

    async def consumer_infos(self, _stream: str) -> list[Mapping[str, Any]]:
        return [{"name": name, "config": config} for name, config in self.bound.items()]

    async def number(self, _stream: str, subject: str) -> int:
        return self.numbers.get(subject, 0)

    async def text(self, _stream: str, subject: str) -> str | None:
        return self.texts.get(subject)

    async def no_room(self, _subject: str) -> str:
        return ""

    async def max_payload(self) -> int:
        return 0

    async def first_since(self, _stream: str, _time: str) -> int:
        return self.since

    async def add(self, _stream: str, subject: str, number: int) -> None:
        self.numbers[subject] = self.numbers.get(subject, 0) + number

    async def carry_out(self, action: Action) -> Outcome:
        self.actions.append(action)
        answer = self._says(action)
        if answer is not None:
            return answer
        match action:
            case CreateStream(config):
                self.streams[config["name"]] = config
                return Done(config)
            case CreateConsumer(_, config):
                self.bound[config["name"]] = config
                return Done(config)
            case DeleteStream(stream):
                del self.streams[stream]
            case DeleteConsumer(_, consumer):
                del self.bound[consumer]
        return Done({})


class FakeTenant(FakeNats):
    """A NATS account that only the functions of a channel are let into."""

    async def named(self) -> SecretNames:
        return SecretNames()
