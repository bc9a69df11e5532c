# SPDX-License-Identifier: Apache-2.0
"""Pages: one HTML file each, which needs no other and opens without a network. They share a frame, a style and a script."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import jinja2

from ..base.text import printable
from .figures import breakable, key_markup, stylesheet


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(__package__), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )
    environment.globals["key_markup"] = key_markup
    environment.filters["breakable"] = lambda words: environment.filters["safe"](breakable(str(words)))
    return environment


def rendered(template: str, also_styled: Sequence[str] = (), **values: Any) -> str:
    """The HTML of a page; also_styled: sheets that not every page needs."""
    style = stylesheet() + "".join(map(_text, ("report.css", *also_styled)))
    script = _text("report.js")
    made = _environment().get_template(template).render(
        style=style, script=script, style_hash=_hash(style), script_hash=_hash(script), **values)
    return printable(made, keep="\n\t")


def _text(name: str) -> str:
    return files(__package__).joinpath(f"templates/{name}").read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """The hash by which the page's policy admits this text and no other."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
