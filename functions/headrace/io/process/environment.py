"""The only reader of environment variables.

It turns them into the settings of `headrace.core.installation`; a wrong value stops the process with a message
that names the variable, quotes it and says which value would do.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from headrace.core.errors import Misconfigured
from headrace.core.quoting import quoted

Settings = TypeVar("Settings", bound=BaseModel)


def fill(model: type[Settings], environment: Mapping[str, str] | None = None) -> Settings:
    """Fill one settings model from its variables; empty variables count as unset.

    Raises:
        Misconfigured: a variable is wrong; the error names the first.
    """
    source = os.environ if environment is None else environment
    aliases = [str(field.alias) for field in model.model_fields.values()]
    given = {alias: source[alias] for alias in aliases if source.get(alias)}
    try:
        return model.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        variable = str(first["loc"][0]) if first["loc"] else ", ".join(given)
        secret = any(word in variable for word in ("PASSWORD", "TOKEN"))
        # The message about several variables names them itself.
        value = f" is {quoted(given[variable], 200)}" if variable in given and not secret else ""
        subject = f"{variable}{value}: " if first["loc"] else ""
        raise Misconfigured(f"{subject}{_sentence(first)}", field=variable) from None


def _sentence(error: ErrorDetails) -> str:
    """The remedy, in words that a deployer knows."""
    bounds = error.get("ctx", {})
    match error["type"]:
        case "missing":
            return "set it"
        case "int_parsing" | "int_parsing_size":
            return "give a whole number"
        case "bool_parsing":
            return "give true or false"
        case "greater_than_equal":
            return f"give at least {bounds['ge']}"
        case "less_than_equal":
            return f"give at most {bounds['le']}"
        case "literal_error":
            return f"give {bounds['expected']}"
        case _:
            return error["msg"].removeprefix("Value error, ")


def variable(name: str, default: str = "") -> str:
    """One plain variable; for the few that are no settings: FUNCTION_TARGET, PORT, HOST."""
    return os.environ.get(name) or default
