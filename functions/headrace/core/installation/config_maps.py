"""The ConfigMaps that say how NATS is reached: the proposal's `eventing-jetstream`, the Go channel's `eventing-nats`.

Both are read as they are. A member that the Go channel knows and Headrace has no use for is not an error but a remark,
and so is a member that nobody knows: a ConfigMap that works there works here, and no slip stays unsaid. Pure: text in,
values out; the mounted files are `headrace.io.process.mount`'s. The third ConfigMap, of defaults, is
`headrace.core.installation.channel_defaults`.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from headrace.core.errors import Misconfigured
from headrace.core.installation.config_choice import PEER_NAME, PROPOSED_NAME
from headrace.core.installation.secret_files import (
    CA,
    CERTIFICATE,
    CREDENTIALS,
    KEY,
    PASSWORD,
    SEED,
    TOKEN,
    USER,
    SecretFile,
)
from headrace.core.manifest.field_words import path_of, sentence
from headrace.core.nats.nats_wire import read_servers

PROPOSED_KEY, PEER_KEY = "eventing-jetstream", "eventing-nats"
KEYS = (PROPOSED_KEY, PEER_KEY)
# The Go channel dials this when its ConfigMap names no server.
PEER_URL = "nats://nats.nats-io.svc.cluster.local"

_EXAMPLE = "an object, as `url: nats://…`"
_BEGIN_CERTIFICATE = "-----BEGIN CERTIFICATE-----"
_NEVER_GIVES_UP = "Headrace never gives up on NATS, and its pauses grow from 0.05 to 2 s"
_UNUSED = ("retryOnFailedConnect", "maxReconnects", "reconnectWaitMilliseconds", "reconnectWait")
_UNUSED_JITTER = (
    "reconnectJitterMilliseconds",
    "reconnectJitterTLSMilliseconds",
    "reconnectJitter",
    "reconnectJitterTLS",
)

Document = TypeVar("Document", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class NatsConfig:
    """The settings for NATS in one ConfigMap.

    Attributes:
        url: servers, comma separated; empty when the ConfigMap leaves it to the settings of the process.
        ca_bundle: PEM certificates to trust, given in the ConfigMap itself.
        secrets: the Secrets to mount for it, and the names of the files (`headrace.core.installation.secret_files`).
        remarks: the settings that are not obeyed, for people.
    """

    url: str = ""
    ca_bundle: str = ""
    tls_first: bool = False
    secrets: tuple[SecretFile, ...] = ()
    remarks: tuple[str, ...] = ()


class _Part(BaseModel):
    # Unknown members are kept so that they can be reported.
    model_config = ConfigDict(frozen=True, strict=True, extra="allow", alias_generator=to_camel)


def _text_or_nothing(value: object) -> object:
    return "" if value is None else value


Text = Annotated[str, BeforeValidator(_text_or_nothing)]


class _Secret(_Part):
    # `secretName` is the proposal's word, `name` the Go channel's.
    secret_name: Text = ""
    name: Text = ""
    key: Text = ""
    username_key: Text = ""
    password_key: Text = ""

    @property
    def called(self) -> str:
        return self.secret_name or self.name


class _Held(_Part):
    secret: _Secret | None = None


class _Auth(_Part):
    credential_file: _Held | None = None
    username_password: _Held | None = None
    token: _Held | None = None
    n_key: _Held | None = Field(None, alias="nKey")
    tls: _Held | None = None


class _Tls(_Part):
    secret_name: Text = ""
    secret: _Secret | None = None
    ca_bundle: Text = ""
    handshake_first: bool = False


class _Nats(_Part):
    url: Text = ""
    auth: _Auth | None = None
    tls: _Tls | None = None
    conn_opts: dict[str, Any] | None = None


def read_nats(data: Mapping[str, str], *, name: str = "") -> NatsConfig | None:
    """The way to NATS; None when no key of the ConfigMap tells it.

    Args:
        data: the ConfigMap's, or the files of the directory where it is mounted.
        name: the ConfigMap's, for messages; by default the usual one.

    Raises:
        Misconfigured: naming ConfigMap, key and field, and quoting the value.
    """
    key = next((key for key in (PROPOSED_KEY, PEER_KEY) if key in data), None)
    if key is None:
        return None
    origin = f"ConfigMap {name or _usual_name(key)}, key {key}"
    found = document(_Nats, data[key], origin)
    secrets = tuple(_secrets(found, origin))
    remarks = [f"{origin}: {words}" for words in _remarks(found)]
    if key == PROPOSED_KEY and PEER_KEY in data:
        remarks.append(f"{origin}: the key {PEER_KEY} beside it is not read: take one of the two out")
    url = found.url or (PEER_URL if key == PEER_KEY else "")
    if url:
        read_servers(url, origin=f"{origin}: url")
    tls = found.tls or _Tls()
    return NatsConfig(url, _ca_bundle(tls.ca_bundle, origin), tls.handshake_first, secrets, tuple(remarks))


def document(
    model: type[Document], text: str, origin: str, *, empty: object = None, example: str = _EXAMPLE
) -> Document:
    """One key of a ConfigMap, which is YAML, as a value.

    Args:
        empty: what an empty text means; by default an object without members.
        example: of the whole, for a text of another form.

    Raises:
        Misconfigured: it is not YAML, or does not fit the model.
    """
    try:
        raw = yaml.safe_load(text)
    # RecursionError: brackets nested too deep; the others: tags on values that they don't fit.
    except (yaml.YAMLError, ValueError, LookupError, TypeError, ArithmeticError, RecursionError) as error:
        where = getattr(error, "problem_mark", None)
        place = f" (line {where.line + 1}, column {where.column + 1})" if where else ""
        problem = getattr(error, "problem", None) or "it can't be read"
        raise Misconfigured(f"{origin}: it is not YAML{place}: {problem}", field=origin) from None
    if raw is None:
        raw = {} if empty is None else empty
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    if not first["loc"]:
        shown = json.dumps(raw, default=str)[:40]
        raise Misconfigured(f"{origin}: it is {shown}: write {example}", field=origin)
    path = path_of("", first["loc"])
    raise Misconfigured(f"{origin}: {sentence(path, first)}", field=path)


def _usual_name(key: str) -> str:
    return {PROPOSED_KEY: PROPOSED_NAME, PEER_KEY: PEER_NAME}[key]


def _secrets(found: _Nats, origin: str) -> Iterator[SecretFile]:
    auth, tls = found.auth or _Auth(), found.tls or _Tls()
    given = {
        "credentialFile": auth.credential_file,
        "usernamePassword": auth.username_password,
        "token": auth.token,
        "nKey": auth.n_key,
    }
    named = {path: _named(held, f"auth.{path}", origin) for path, held in given.items() if held is not None}
    ways = [path for path, secret in named.items() if secret is not None]
    if len(ways) > 1:
        problem = f"auth has {' and '.join(ways)}: keep one of them"
        raise Misconfigured(f"{origin}: {problem}", field="auth")
    for path in ways:
        secret = named[path]
        assert secret is not None
        yield from _identity_files(path, secret)
    yield from _tls_files(auth, tls, origin)


def _identity_files(way: str, secret: _Secret) -> Iterator[SecretFile]:
    match way:
        case "credentialFile":
            yield SecretFile(secret.called, secret.key or CREDENTIALS, CREDENTIALS)
        case "nKey":
            # The proposal's default key, although a seed lies there.
            yield SecretFile(secret.called, secret.key or CREDENTIALS, SEED)
        case "token":
            yield SecretFile(secret.called, secret.key or TOKEN, TOKEN)
        case _:
            yield SecretFile(secret.called, secret.username_key or USER, USER)
            yield SecretFile(secret.called, secret.password_key or PASSWORD, PASSWORD)


def _tls_files(auth: _Auth, tls: _Tls, origin: str) -> Iterator[SecretFile]:
    """The client's certificate, and the CA: the more special reference wins over a whole TLS Secret."""
    client = _named(auth.tls, "auth.tls", origin) if auth.tls is not None else None
    # The proposal's single Secret has all three, or the CA alone.
    whole = client.called if client is not None else tls.secret_name
    trusted = tls.secret.called if tls.secret is not None else ""
    if tls.secret is not None and not trusted:
        raise _nameless("tls.secret", origin)
    if whole:
        yield SecretFile(whole, CERTIFICATE, CERTIFICATE, optional=client is None)
        yield SecretFile(whole, KEY, KEY, optional=client is None)
    if tls.ca_bundle:
        return
    ca = trusted or tls.secret_name or whole
    if ca:
        key = (tls.secret.key if tls.secret is not None else "") or CA
        # A Secret that was named for its CA has a CA.
        yield SecretFile(ca, key, CA, optional=not trusted)


def _named(held: _Held | None, path: str, origin: str) -> _Secret | None:
    """The Secret of a way to authenticate; None where somebody copied the proposal's page and filled nothing in."""
    if held is None or held.secret is None:
        return None
    secret = held.secret
    if not secret.called:
        if secret.key or secret.username_key or secret.password_key:
            raise _nameless(f"{path}.secret", origin)
        return None
    return secret


def _nameless(path: str, origin: str) -> Misconfigured:
    return Misconfigured(f"{origin}: {path} names no Secret: give its secretName", field=f"{path}.secretName")


def _ca_bundle(text: str, origin: str) -> str:
    """PEM, from its base64, as the Go channel has it, or as it is."""
    if not text or _BEGIN_CERTIFICATE in text:
        return text
    try:
        decoded = base64.b64decode("".join(text.split()), validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        decoded = ""
    if _BEGIN_CERTIFICATE not in decoded:
        problem = "tls.caBundle holds no certificate: give PEM, or base64 of it"
        raise Misconfigured(f"{origin}: {problem}", field="tls.caBundle")
    return decoded


def _remarks(found: _Nats) -> Iterator[str]:
    for name in found.conn_opts or {}:
        if name in _UNUSED or name in _UNUSED_JITTER:
            yield f"connOpts.{name} is not obeyed: {_NEVER_GIVES_UP}"
        else:
            yield f"connOpts.{name} is unknown: {_NEVER_GIVES_UP}"
    if "@" in found.url:
        yield "url names a user or password, which everybody who may read the ConfigMap can see: put them in a Secret"
    for path in unknown_members(found, ""):
        yield f"{path} is unknown and not obeyed: check its spelling"


def unknown_members(part: BaseModel, path: str) -> Iterator[str]:
    """The paths of all members that no model knows, as far as the models keep unknown members."""
    for name in part.model_extra or {}:
        yield f"{path}{name}"
    for name, field in type(part).model_fields.items():
        value = getattr(part, name)
        if isinstance(value, BaseModel):
            yield from unknown_members(value, f"{path}{field.alias or name}.")
