"""The options that say how to reach NATS; the same for reading and writing.

An option never holds a secret, since Spark shows options in plans: it names the file, or the environment variable, that
holds the secret. Where no option is given, the variables of the rest of Headrace count.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.core.errors import Misconfigured
from headrace.core.nats.nats_wire import read_servers
from pyspark_jetstream.client.access import API_PREFIX, Access, Secret
from pyspark_jetstream.client.subjects import is_filter
from pyspark_jetstream.option_values import Values, wrong

# By option, the environment variable that is read when the option is not given.
_VARIABLES = {
    "credsFile": "NATS_CREDS_FILE",
    "nkeySeedFile": "NATS_NKEY_SEED_FILE",
    "user": "NATS_USER",
    "tlsCaFile": "NATS_TLS_CA_FILE",
    "tlsCertFile": "NATS_TLS_CERT_FILE",
    "tlsKeyFile": "NATS_TLS_KEY_FILE",
}
_IDENTITY = ("credsFile", "nkeySeedFile", "user", "passwordFile", "passwordEnv", "tokenFile", "tokenEnv")
CONNECTION_OPTIONS = (
    "servers",
    *_IDENTITY,
    "tlsCaFile",
    "tlsCertFile",
    "tlsKeyFile",
    "tlsFirst",
    "timeout",
    "domain",
    "apiPrefix",
)
# Names that people will try, and the names that they should write.
_SECRETS = {"password": "passwordFile or passwordEnv", "token": "tokenFile or tokenEnv"}
_DEFAULT_SECONDS = 30.0


def access(values: Values, environment: Mapping[str, str]) -> Access:
    """Raises:
    Misconfigured: the message names the option.
    """
    for secret, instead in _SECRETS.items():
        if secret in values:
            # The message must not quote the value.
            raise Misconfigured(
                f"option {secret} would be shown in Spark's plans: name the file or variable that "
                f"holds it, in {instead}",
                field=secret,
            )

    # An identity in the options is whole: the environment adds nothing to it.
    ours = {} if any(name in values for name in _IDENTITY) else environment

    def path(name: str, source: Mapping[str, str] = environment) -> str:
        return values.text(name) or source.get(_VARIABLES[name], "")

    creds, nkey, user = path("credsFile", ours), path("nkeySeedFile", ours), path("user", ours)
    password = _secret(values, "password", "NATS_PASSWORD", ours)
    token = _secret(values, "token", "NATS_TOKEN", ours)
    ways = {"credsFile": creds, "nkeySeedFile": nkey, "user": user, "token": token}
    given = [f"{name} ({way})" if isinstance(way, str) else way.option for name, way in ways.items() if way]
    if len(given) > 1:
        raise Misconfigured(f"{' and '.join(given)} are given: give one way to authenticate", field=given[0])
    if user and password is None:
        raise wrong("user", user, "it goes together with passwordFile or passwordEnv: give one of them, too")
    if password is not None and not user:
        raise wrong(password.option, password.file or password.variable, "it goes together with user: give both")
    cert, key = path("tlsCertFile"), path("tlsKeyFile")
    if bool(cert) != bool(key):
        one, other = ("tlsCertFile", "tlsKeyFile") if cert else ("tlsKeyFile", "tlsCertFile")
        raise wrong(one, cert or key, f"it goes together with {other}: give both or neither")
    return Access(
        servers=_servers(values, environment),
        creds_file=creds,
        nkey_seed_file=nkey,
        user=user,
        password=password,
        token=token,
        tls_ca_file=path("tlsCaFile"),
        tls_cert_file=cert,
        tls_key_file=key,
        tls_first=values.flag("tlsFirst", environment.get("NATS_TLS_FIRST", "").lower() in ("true", "1")),
        timeout=values.seconds("timeout", _DEFAULT_SECONDS),
        api_prefix=_api_prefix(values),
    )


def _api_prefix(values: Values) -> str:
    domain, prefix = values.text("domain"), values.text("apiPrefix")
    if domain and prefix:
        raise wrong("apiPrefix", prefix, "domain is given, too: give one of them")
    if domain and ("." in domain or not is_filter(domain) or domain in ("*", ">")):
        raise wrong("domain", domain, "write the name of a JetStream domain, one word, as hub")
    if prefix and (not is_filter(prefix) or set(prefix.split(".")) & {"*", ">"}):
        raise wrong(
            "apiPrefix", prefix, "write what the subjects of the API begin with, as $JS.hub.API or JS.other.API"
        )
    return f"$JS.{domain}.API" if domain else prefix or API_PREFIX


def _servers(values: Values, environment: Mapping[str, str]) -> str | Secret:
    given = values.text("servers")
    if "@" in given:
        raise Misconfigured(
            f"option servers has a user or password before {given.rpartition('@')[2]!r}, which Spark would show in "
            "plans: give it in credsFile, nkeySeedFile, user with passwordFile, or tokenFile",
            field="servers",
        )
    servers = given or environment.get("NATS_URL", "")
    if not servers:
        raise Misconfigured(
            "option servers is missing, and NATS_URL is not set: give it, as nats://nats.example:4222", field="servers"
        )
    read_servers(servers, origin="servers" if given else "NATS_URL")
    return Secret("NATS_URL", variable="NATS_URL") if "@" in servers else servers


def _secret(values: Values, name: str, variable: str, environment: Mapping[str, str]) -> Secret | None:
    file, env = f"{name}File", f"{name}Env"
    if file in values and env in values:
        raise wrong(file, values.text(file), f"{env} is given, too: give one of them")
    if file in values:
        return Secret(file, file=values.text(file))
    if env in values:
        return Secret(env, variable=values.text(env))
    return Secret(variable, variable=variable) if environment.get(variable) else None
