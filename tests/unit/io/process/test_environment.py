"""Settings from the environment: a mistake is told once, by its variable, before anything is served."""

from __future__ import annotations

from datetime import timedelta

import pytest
from pydantic import BaseModel

from headrace.core.errors import Misconfigured
from headrace.core.installation.function_settings import ForwardSettings, ReceiveSettings
from headrace.core.installation.nats_settings import NatsSettings
from headrace.core.installation.operator_settings import OperatorSettings
from headrace.core.installation.reconcile_settings import ReconcileSettings
from headrace.host import application
from headrace.io.process import environment


@pytest.mark.parametrize("text", ["PT1.5S", "1.5s", "1500ms", "1.5"])
def test_a_time_span_is_read_in_every_form_that_people_write(text: str) -> None:
    settings = environment.fill(ReceiveSettings, {"RECEIVE_PUBLISH_TIMEOUT": text})
    assert settings.publish_timeout == timedelta(seconds=1.5)


def test_an_empty_variable_is_an_unset_one() -> None:
    assert environment.fill(NatsSettings, {"NATS_USER": "", "NATS_TLS_FIRST": ""}) == NatsSettings()


@pytest.mark.parametrize(
    ("model", "variables", "sentence"),
    [
        pytest.param(
            ReceiveSettings,
            {"RECEIVE_PUBLISH_TIMEOUT": "soon"},
            "RECEIVE_PUBLISH_TIMEOUT is 'soon': give a time span, as PT5S or 5s",
            id="a span",
        ),
        pytest.param(
            ForwardSettings,
            {"FORWARD_MAX_IN_FLIGHT": "lots"},
            "FORWARD_MAX_IN_FLIGHT is 'lots': give a whole number",
            id="a number",
        ),
        pytest.param(
            ForwardSettings,
            {"FORWARD_MAX_IN_FLIGHT": "0"},
            "FORWARD_MAX_IN_FLIGHT is '0': give at least 1",
            id="a number that is too small",
        ),
        pytest.param(
            ReconcileSettings,
            {"RECONCILE_GONE_GRACE": "-5"},
            "RECONCILE_GONE_GRACE is '-5': give a time span, as PT5S or 5s",
            id="a negative span",
        ),
        pytest.param(
            ReconcileSettings,
            {"RECONCILE_GONE_GRACE": "9" * 20},
            "RECONCILE_GONE_GRACE is '99999999999999999999': give a time span, as PT5S or 5s",
            id="a span beyond all calendars",
        ),
        pytest.param(
            ReconcileSettings,
            {"HEADRACE_RUNTIME": "docker"},
            "HEADRACE_RUNTIME is 'docker': give 'auto', 'knative' or 'deployment'",
            id="none of the words",
        ),
        pytest.param(
            NatsSettings,
            {"NATS_USER": "u", "NATS_TOKEN": "secret"},
            "NATS_USER and NATS_TOKEN are set: give one way to authenticate",
            id="two identities",
        ),
    ],
)
def test_what_is_wrong_is_named_quoted_and_mended(
    model: type[BaseModel], variables: dict[str, str], sentence: str
) -> None:
    with pytest.raises(Misconfigured) as refused:
        environment.fill(model, variables)
    assert str(refused.value) == sentence
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("target", "variable"),
    [
        ("receive", "RECEIVE_WAKE_INTERVAL"),
        ("forward", "FORWARD_MAX_ANSWER_BYTES"),
        ("reconcile", "RECONCILE_GONE_GRACE"),
    ],
)
def test_a_wrong_setting_stops_a_function_before_it_serves(
    monkeypatch: pytest.MonkeyPatch, target: str, variable: str
) -> None:
    monkeypatch.setenv("HEADRACE_TOKEN", "t")
    monkeypatch.setenv(variable, "nonsense")
    with pytest.raises(Misconfigured) as refused:
        application(target)
    assert refused.value.field == variable


@pytest.mark.parametrize("target", ["forward", "reconcile"])
def test_without_a_shared_token_nobody_is_served(monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    monkeypatch.delenv("HEADRACE_TOKEN", raising=False)
    monkeypatch.delenv("HEADRACE_TOKEN_FILE", raising=False)
    with pytest.raises(Misconfigured) as refused:
        application(target)
    assert refused.value.field == "HEADRACE_TOKEN_FILE"


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        pytest.param({}, "HOOK_URL: set it", id="missing"),
        pytest.param({"HOOK_URL": "reconcile"}, "HOOK_URL is 'reconcile': give a URL, as http://", id="no URL"),
        pytest.param(
            {"HOOK_URL": "http://r", "OPERATOR_RESYNC": "1s"}, "OPERATOR_RESYNC is '1s': give at least", id="span"
        ),
    ],
)
def test_what_the_operator_must_be_told(variables: dict[str, str], words: str) -> None:
    with pytest.raises(Misconfigured) as raised:
        environment.fill(OperatorSettings, variables)
    assert str(raised.value).startswith(words)


def test_a_url_of_the_operator_has_no_slash_at_its_end() -> None:
    assert environment.fill(OperatorSettings, {"HOOK_URL": "http://reconcile/"}).hook == "http://reconcile"
