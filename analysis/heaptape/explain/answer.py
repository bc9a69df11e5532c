"""The answer of `explain`, as text and as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ..base.text_table import table_lines
from ..base.units import byte_count, percent, three_digits
from .accounts import ACCOUNTS, MEANING, Accounts
from .cures import Cure
from .holders import Holder
from .snapshots import Snapshot
from .verdict import VERDICTS, Trend

CURES_SHOWN = 3


@dataclass(frozen=True)
class Answer:
    """cures: None where none were tried."""

    trace: str
    snapshot: Snapshot
    end_ns: int
    accounts: Accounts
    verdict: str
    trend: Trend
    holders: list[Holder]
    thread_names: dict[int, str]
    cures: list[Cure] | None


def _time(ns: float) -> str:
    return f"{three_digits(ns / 1e9)} s"


def _sizes(holder: Holder) -> str:
    low, high = f"{holder.size_low:,}", f"{holder.size_high:,}"
    return f"{low} bytes" if low == high else f"{low}–{high} bytes"


def _thread(answer: Answer, holder: Holder) -> str:
    if holder.thread is None:
        return "several threads"
    name = answer.thread_names.get(holder.thread, "")
    return f"thread {holder.thread}" + (f" ({name})" if name else "")


def _when(holder: Holder) -> str:
    return f"between {_time(holder.born_from_ns)} and {_time(holder.born_to_ns)}" if holder.windowed else "at any time"


def _first_sentences(answer: Answer) -> list[str]:
    accounts, snapshot = answer.accounts, answer.snapshot
    above = accounts.rss_bytes - accounts.bytes["live"]
    why = {"peak": "at its peak", "end": "at the end"}.get(snapshot.why, f"at {_time(snapshot.time_ns)}")
    allocator = f"{snapshot.allocator['name']} {snapshot.allocator['version']}".strip()
    lines = [f"Under {allocator} RSS is {byte_count(accounts.rss_bytes)} {why} ({_time(snapshot.time_ns)} of {_time(answer.end_ns)}): "
             f"{byte_count(accounts.bytes['live'])} of live blocks and {byte_count(above)} above them.",
             f"Verdict: {answer.verdict}: {VERDICTS[answer.verdict]}. Along the trace {answer.trend.words}."]
    if answer.holders and accounts.bytes["holes"]:
        worst = answer.holders[0]
        lines.append(f"{percent(worst.holes_bytes / accounts.bytes['holes'])} of the holes ({byte_count(worst.holes_bytes)}) are held by "
                     f"{percent(worst.blocks / max(len(accounts.blocks), 1))} of the blocks: {_sizes(worst)}, allocated by "
                     f"{_thread(answer, worst)} {_when(worst)}.")
    return lines


def _account_lines(accounts: Accounts) -> list[str]:
    rows = [["account", "bytes", "of RSS", "what it is"]]
    rows += [[name.replace("_", " "), byte_count(accounts.bytes[name]), percent(accounts.bytes[name] / max(accounts.rss_bytes, 1)), MEANING[name]]
             for name in ACCOUNTS]
    lines = table_lines(rows, right=(1, 2))
    if accounts.not_resident_bytes:
        lines.append(f"Not in RSS: {byte_count(accounts.not_resident_bytes)} of live blocks, never written to.")
    return lines


def _holder_lines(answer: Answer) -> list[str]:
    holes = max(answer.accounts.bytes["holes"], 1)
    rows = [["holes", "share", "blocks", "sizes", "allocated by", "when"]]
    rows += [[byte_count(holder.holes_bytes), percent(holder.holes_bytes / holes), f"{holder.blocks:,}", _sizes(holder), _thread(answer, holder),
              _when(holder)] for holder in answer.holders]
    return table_lines(rows, right=(0, 1, 2)) if answer.holders else []


def _cure_lines(answer: Answer) -> list[str]:
    if answer.cures is None:
        return []
    helpful = [cure for cure in answer.cures if cure.ci_low > 0][:CURES_SHOWN]
    if not helpful:
        return [f"No setting that was tried saves memory ({len(answer.cures)} tried)."]
    rows = [["what helps", "saves", "95 % interval", "time in malloc"]]
    rows += [[cure.name, byte_count(cure.saves_bytes), f"{byte_count(cure.ci_low)} to {byte_count(cure.ci_high)}",
              "n/a" if cure.time_ratio is None else f"× {cure.time_ratio:.2f}"] for cure in helpful]
    lines = table_lines(rows, right=(1,))
    for cure in helpful:
        lines += ["", f"{cure.name}:", *(f"  {what:7}  {line}" for what, line in cure.lines)] \
            if cure.lines else []
    return lines


def text_of(answer: Answer) -> list[str]:
    """Lines."""
    lines = [*_first_sentences(answer), "", *_account_lines(answer.accounts)]
    for more in (_holder_lines(answer), _cure_lines(answer)):
        lines += ["", *more] if more else []
    return lines


def object_of(answer: Answer) -> dict[str, Any]:
    """For --json. Its keys stay (docs/reference/explain.md)."""
    snapshot = answer.snapshot
    return {
        "trace": answer.trace, "allocator": snapshot.allocator, "at": snapshot.why, "time_ns": snapshot.time_ns, "event": snapshot.event,
        "rss_bytes": answer.accounts.rss_bytes, "accounts_bytes": answer.accounts.bytes,
        "not_resident_bytes": answer.accounts.not_resident_bytes, "blocks": len(answer.accounts.blocks),
        "verdict": answer.verdict, "trend": asdict(answer.trend),
        "holders": [asdict(holder) | {"thread_name": answer.thread_names.get(holder.thread, "") if holder.thread is not None else None}
                    for holder in answer.holders],
        "cures": None if answer.cures is None else [
            {"name": cure.name, "alloc": cure.alloc, "saves_bytes": cure.saves_bytes, "ci_low": cure.ci_low, "ci_high": cure.ci_high,
             "time_ratio": cure.time_ratio} for cure in answer.cures]}
