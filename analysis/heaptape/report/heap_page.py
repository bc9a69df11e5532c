# SPDX-License-Identifier: Apache-2.0
"""The page of `explain`: what RSS consists of, since when, where it lies in the address space, who holds it, what helps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..base.files import write_whole
from ..base.units import byte_count
from ..explain.answer import (
    Answer,
    advice,
    also_set_for,
    cure_rows,
    first_sentences,
    holder_rows,
    moment_rows,
    no_setting,
    not_in_rss,
    site_holder_rows,
)
from .figures import Table, colour_classes
from .flame_graph import flame_figure
from .heap_figures import Heap, accounts_figure, heaps_of
from .page import rendered


def _table(rows: list[list[str]]) -> Table | None:
    return Table(rows[0], rows[1:]) if rows else None


def _story(heap: Heap) -> dict[str, Any]:
    """The words and tables about one allocator."""
    answer = heap.answer
    sentences = first_sentences(answer)
    return {"heap": heap, "first": sentences[0], "sentences": sentences[1:], "moments": _table(moment_rows(answer)),
            "not_in_rss": not_in_rss(answer.accounts),
            "holders": _table(holder_rows(answer)), "sites": _table(site_holder_rows(answer)),
            "flame": flame_figure(answer.sites.tree, answer.sites.places) if answer.sites else None,
            "cures": _table(cure_rows(answer)), "advice": advice(answer), "also_said": [*filter(None, [no_setting(answer), also_set_for(answer)])]}


def heap_page(answers: list[Answer]) -> str:
    """The HTML."""
    names = [str(answer.snapshot.allocator["name"]) for answer in answers]
    heaps = heaps_of(answers, colour_classes(names, names[0]))
    stories = [_story(heap) for heap in heaps]
    several = ", ".join(f"{heap.name} {byte_count(heap.answer.accounts.rss_bytes)}" for heap in heaps)
    headline = stories[0]["first"] if len(stories) == 1 else f"RSS: {several}."
    subject = answers[0].command or Path(answers[0].trace).name
    return rendered("explain.html.j2", stories=stories, heaps=heaps, headline=headline, accounts=accounts_figure(heaps),
                    subject=subject, title=subject, resident=any(moment.accounts.rss_bytes for answer in answers for moment in answer.moments))


def write_heap_page(answers: list[Answer], output: str | Path, inputs: Sequence[str | Path]) -> None:
    """Whole or not at all."""
    write_whole(output, heap_page(answers), inputs)
