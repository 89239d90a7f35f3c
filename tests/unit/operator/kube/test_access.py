"""How the operator finds its API server: a kubeconfig as kubectl has it, or the files of a pod."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from headrace.core.errors import Misconfigured
from headrace.core.installation.operator_settings import KubeSettings
from headrace_operator.kube import access
from headrace_operator.kube.kubeconfig import chosen, paths

AUTHORITY = trustme.CA()


def kubeconfig(path: Path, user: dict[str, Any], **cluster: Any) -> Path:
    config = {
        "clusters": [{"name": "c", "cluster": {"server": "https://api:6443/", **cluster}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "eventing"}}],
        "current-context": "x",
    }
    file = path / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    return file


def encoded(pem: trustme.Blob) -> str:
    return base64.b64encode(pem.bytes()).decode()


def test_a_token_and_an_authority(tmp_path: Path) -> None:
    file = kubeconfig(tmp_path, {"token": "secret"}, **{"certificate-authority-data": encoded(AUTHORITY.cert_pem)})
    found = access.find(KubeSettings(kubeconfig=str(file)))
    assert (found.url, found.token(), found.namespace) == ("https://api:6443", "secret", "eventing")
    assert found.context is not None
    assert [one["subject"] for one in found.context.get_ca_certs()] != []


def test_a_client_certificate(tmp_path: Path) -> None:
    client = AUTHORITY.issue_cert("client")
    user = {
        "client-certificate-data": encoded(client.cert_chain_pems[0]),
        "client-key-data": encoded(client.private_key_pem),
    }
    found = access.from_kubeconfig(kubeconfig(tmp_path, user))
    assert found.token() == ""


def test_a_token_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one\n")
    os.utime(file, (1, 1))
    found = access.from_kubeconfig(kubeconfig(tmp_path, {"tokenFile": "token"}))
    assert found.token() == "one"
    file.write_text("two")
    assert found.token() == "two"
    file.unlink()
    assert found.token() == "two", "while it is replaced the old one is good"


def test_the_service_account_of_a_pod(tmp_path: Path) -> None:
    AUTHORITY.cert_pem.write_to_path(tmp_path / "ca.crt")
    (tmp_path / "namespace").write_text("knative-eventing")
    (tmp_path / "token").write_text("of the pod")
    found = access.from_service_account("fd00::1", 443, tmp_path)
    assert (found.url, found.token(), found.namespace) == ("https://[fd00::1]:443", "of the pod", "knative-eventing")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("a: b", "has no current-context, and none was named: it has no contexts", id="something else"),
        pytest.param("users: 3", "is no kubeconfig", id="of other types"),
        pytest.param("users:\n- {token: s3cret", "is not YAML in line 2: expected", id="not YAML"),
        pytest.param("[" * 3000, "is no kubeconfig", id="too deep"),
    ],
)
def test_what_is_no_kubeconfig(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(text)
    with pytest.raises(Misconfigured, match=words):
        access.from_kubeconfig(file)


@pytest.mark.parametrize(
    ("user", "words"),
    [
        pytest.param({"username": "admin", "password": "x"}, "with 'username', .* give a token", id="a password"),
        pytest.param({"auth-provider": {"name": "gcp"}}, "auth-provider 'gcp', .* with `exec`", id="an auth-provider"),
        pytest.param({"auth-provider": "gcp"}, "auth-provider 'gcp'", id="an auth-provider as text"),
        pytest.param(
            {"exec": {"command": "aws", "apiVersion": "client.authentication.k8s.io/v1"}},
            r"has users\[\]\.user\.exec, .* which the operator does not run: let it run in the cluster .* give a token",
            id="a program that gives credentials",
        ),
        pytest.param({"exec": "aws"}, r"has users\[\]\.user\.exec", id="a program as text"),
    ],
)
def test_a_way_to_authenticate_that_is_not_spoken(tmp_path: Path, user: dict[str, Any], words: str) -> None:
    file = kubeconfig(tmp_path, user)
    with pytest.raises(Misconfigured, match=words):
        access.from_kubeconfig(file)


@pytest.mark.parametrize("token", ["token", "tokenFile"])
def test_a_token_beside_a_program_is_taken_as_kubectl_takes_it(tmp_path: Path, token: str) -> None:
    (tmp_path / "t").write_text("t")
    found = access.from_kubeconfig(kubeconfig(tmp_path, {"exec": {"command": "aws"}, token: "t"}))
    assert found.headers == {"Authorization": "Bearer t"}


def test_of_several_files_the_first_word_counts_and_paths_are_those_of_each_file(tmp_path: Path) -> None:
    for name, context in (("one", "x"), ("two", "y")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "token").write_text(name)
        config = {
            "clusters": [{"name": "c", "cluster": {"server": f"http://{name}"}}],
            "users": [{"name": f"user-{name}", "user": {"tokenFile": "token"}}],
            "contexts": [{"name": context, "context": {"cluster": "c", "user": f"user-{name}"}}],
            "current-context": context,
        }
        (tmp_path / name / "config").write_text(yaml.safe_dump(config))
    listed = os.pathsep.join(str(tmp_path / name / "config") for name in ("not-there", "one", "two"))
    found = access.find(KubeSettings(kubeconfig=listed))
    assert (found.url, found.token()) == ("http://one", "one")
    other = chosen(paths(listed), "y")
    assert (other.cluster["server"], other.user["tokenFile"]) == ("http://one", str(tmp_path / "two" / "token"))


@pytest.mark.parametrize(
    ("user", "cluster", "words"),
    [
        pytest.param({"as": "jane"}, {}, "its user acts as another .'as'.*give a user", id="impersonation"),
        pytest.param({"as-groups": ["readers"]}, {}, "acts as another .'as-groups'.", id="impersonation of groups"),
        pytest.param({"as-uid": "7"}, {}, "acts as another .'as-uid'.", id="impersonation of a uid"),
        pytest.param({"as-user-extra": {"a": ["b"]}}, {}, "'as-user-extra'", id="impersonation with more"),
        pytest.param({"token": 12345}, {}, "its user's token is no text: put it in quotes", id="a token like a number"),
        pytest.param({}, {"proxy-url": "socks5://proxy:1080"}, "proxy-url is none of http://host:port", id="socks"),
        pytest.param({}, {"proxy-url": "proxy:3128"}, "proxy-url is none of", id="a proxy without scheme"),
        pytest.param({}, {"proxy-url": "http://proxy:99999"}, "proxy-url is none of", id="a proxy's port"),
        pytest.param({}, {"tls-server-name": ["api"]}, "tls-server-name is no text", id="a list of names"),
        pytest.param({}, {"insecure-skip-tls-verify": "false"}, "'false': give true or false", id="a word for false"),
        pytest.param(
            {},
            {"insecure-skip-tls-verify": True, "certificate-authority-data": encoded(AUTHORITY.cert_pem)},
            "beside certificate-authority-data, as kubectl refuses it: take one of the two out",
            id="nobody is verified by a CA",
        ),
    ],
)
def test_what_is_not_obeyed_is_refused(
    tmp_path: Path, user: dict[str, Any], cluster: dict[str, Any], words: str
) -> None:
    with pytest.raises(Misconfigured, match=words):
        access.from_kubeconfig(kubeconfig(tmp_path, user, **cluster))


def test_a_proxys_password_is_not_told(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured) as told:
        access.from_kubeconfig(kubeconfig(tmp_path, {}, **{"proxy-url": "socks5://me:secret@proxy:1080"}))
    assert "secret" not in str(told.value)


def test_what_is_given_as_data_overrides_the_file_that_is_named(tmp_path: Path) -> None:
    client, other = AUTHORITY.issue_cert("client"), trustme.CA()
    other.cert_pem.write_to_path(tmp_path / "other.pem")
    user = {
        "client-certificate": "not-there.pem",
        "client-key": "not-there.key",
        "client-certificate-data": encoded(client.cert_chain_pems[0]),
        "client-key-data": encoded(client.private_key_pem),
    }
    authorities = {"certificate-authority": "other.pem", "certificate-authority-data": encoded(AUTHORITY.cert_pem)}
    found = access.from_kubeconfig(kubeconfig(tmp_path, user, **authorities))
    assert found.context is not None
    assert len(found.context.get_ca_certs()) == 1
