"""The Secrets that the mounted ConfigMap names, and which of them are mounted."""

from __future__ import annotations

import os

from headrace.core.errors import Misconfigured
from headrace.core.installation import secret_files
from headrace.core.installation.config_choice import Choice
from headrace.core.installation.config_maps import NatsConfig
from headrace.core.installation.nats_settings import NatsSettings
from headrace.core.installation.secret_names import SecretNames
from headrace.io.process import nats_config
from headrace.io.process.mount import directories


class SecretNamesReader:
    """Reads again at each call of `now`; when the ConfigMap can't be read any more, its last good text counts."""

    def __init__(self, settings: NatsSettings) -> None:
        self._settings = settings
        self._texts: dict[str, str] = {}
        self._choice = Choice()
        self._config: NatsConfig | None = None
        self._name = settings.config_name or ""

    def now(self, problem: str = "") -> SecretNames:
        """The Secrets that the ConfigMap names now.

        Args:
            problem: the trouble of the client that reads the same files.
        """
        config = self._look()
        if config is None:
            return SecretNames(config_map=self._name, problem=problem)
        root = self._settings.credentials_dir or ""
        places = directories(root, secret_files.LEVELS) if root else []
        missing = (
            one
            for one in config.secrets
            if not one.optional and not any(os.path.exists(os.path.join(place, one.file)) for place in places)
        )
        return SecretNames(config.secrets, tuple(missing), self._name, problem)

    def _look(self) -> NatsConfig | None:
        if not self._settings.config_dir:
            return None
        try:
            found = nats_config.mounted(self._settings.config_dir)
            if found != self._texts:
                self._config, self._name = nats_config.choose(self._settings, found, self._choice)
                self._texts = found
        except Misconfigured:
            # The client reports it.
            return self._config
        return self._config
