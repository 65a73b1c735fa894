"""What all parts of a plan share: strict keys, counts, ids, command lines, variables."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from genreport.records import ID

VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
ENV_NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"


def split_command(value: Any) -> Any:
    """A command line as a list of words; anything but text passes for the next validator to judge."""
    try:
        return shlex.split(value) if isinstance(value, str) else value
    except ValueError as error:
        raise ValueError(f"not a command line: {error}") from None


def listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def expand(value: Any, env: Mapping[str, str]) -> Any:
    """JSON-like data with each `${VAR}` that the environment has replaced."""
    if isinstance(value, str):
        return VARIABLE.sub(lambda found: env.get(found[1], found[0]), value)
    if isinstance(value, dict):
        return {key: expand(inner, env) for key, inner in value.items()}
    return [expand(inner, env) for inner in value] if isinstance(value, list) else value


Id = Annotated[str, StringConstraints(pattern=ID, max_length=60)]
Count = Annotated[int, Field(strict=True, gt=0)]
CountFromZero = Annotated[int, Field(strict=True, ge=0)]
Positive = Annotated[float, Field(gt=0)]
# seconds and rates of schedules: their moments, in whole microseconds, must stay numbers of 64 bits
Paced = Annotated[float, Field(ge=1e-6, le=1e9)]
Words = Annotated[list[str], BeforeValidator(split_command)]
Names = Annotated[list[str], BeforeValidator(listed)]


class Part(BaseModel):
    """Base of everything in a plan: unknown keys are mistakes, numbers may stand for text (`-np: 16`)."""

    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True, allow_inf_nan=False)
