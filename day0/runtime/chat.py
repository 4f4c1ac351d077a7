"""Chat templates: jinja2 in a sandbox, with the few names that templates of the hub expect."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from day0.errors import Day0Error

Message = Mapping[str, Any]  # "role" and "content", and what else a template reads


class _Generation(Extension):
    """`{% generation %}` marks the model's own words for training; here it marks nothing."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def render(template: str, messages: Sequence[Message], special: Mapping[str, str]) -> str:
    """The text a template makes of messages, with the opening of an answer. Day0Error when the
    template is broken or refuses them. Names and settings as transformers 5.24 gives them."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=("jinja2.ext.loopcontrols", _Generation),
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    try:
        return environment.from_string(template).render(
            messages=[dict(message) for message in messages],
            add_generation_prompt=True,
            tools=None,
            documents=None,
            **special,
        )
    # A template is a program of the checkpoint's: these are the errors its own mistakes raise.
    except (TemplateError, TypeError, ValueError, LookupError, AttributeError) as error:
        raise Day0Error(
            f"the chat template refuses these messages: {' '.join(str(error).split())}",
            hint="give the text as it stands: --prompt TEXT",
        ) from error


def _to_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _refuse(message: str) -> str:
    raise TemplateError(message)
