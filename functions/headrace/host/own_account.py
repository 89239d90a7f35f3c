"""Answers another `reconcile`, which decides about a channel in a NATS account that only this one may enter.

Calls and answers have the form of `headrace.core.nats.own_account`. The call `named` works without NATS, too: the names
in a ConfigMap must be known before NATS lets anybody in.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.core.errors import InvalidSpec, Refused, Unavailable
from headrace.core.http import Response, json_response
from headrace.core.installation.secret_names import SecretNames
from headrace.core.nats import own_account as form
from headrace.io.jetstream.admin import Admin


async def lend(body: bytes, admin: Admin, named: Callable[[], SecretNames]) -> Response:
    """Carry out a call, as far as NATS lets us.

    Raises:
        InvalidSpec: the body is no call.
    """
    call = form.read_call(body)
    if call.name == "named":
        return json_response(200, form.answer(named().to_json()))
    try:
        result = await getattr(admin, call.name)(*call.arguments)
    except (Refused, Unavailable) as error:
        return json_response(200, form.failure(error))
    except TypeError as error:
        problem = f"body.arguments don't fit {call.name}: both sides should be of one version"
        raise InvalidSpec(problem, field="body") from error
    return json_response(200, form.answer(result))
