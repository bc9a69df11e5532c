# SPDX-License-Identifier: Apache-2.0
"""A validation for the terminal: memory, CPU, requests, and how far the order of the allocators is the same."""

from __future__ import annotations

from typing import Any

from ..base.text import table_lines
from ..base.units import MISSING, byte_count, count, counted, decimal, known, nanoseconds, percent

_PLACES = (("allocator", "in malloc"), ("replayed", "predicted"), ("program", "outside"))
_MISSES = (("l1d_misses", "L1D misses"), ("l2_misses", "L2 misses"), ("l1i_misses", "L1I misses"), ("dtlb_misses", "TLB misses"),
           ("stlb_misses", "second TLB"), ("branch_misses", "branch misses"), ("faults", "page faults"))


def _signed(value: int) -> str:
    return f"{value:+,}" if value else "0"


def instruction_lines(document: dict[str, Any]) -> list[str]:
    """Instructions of the program without its start, and the differences to the baseline."""
    base = document["baseline"]
    rows = [["allocator", "instructions", f"less {base}'s: predicted", "real", "error", "in malloc", "outside", "loading"]]
    for item in (item for item in document["allocators"] if "counts" in item):
        parts, apart = item["counts"], item["count_differences"]
        row = [item["name"], count(parts["allocator"]["instructions"] + parts["program"]["instructions"])]
        if not apart:
            rows.append([*row, "baseline", *[""] * 5])
            continue
        error = item["instructions_error"]
        rows.append([*row, _signed(item["instructions_delta_predicted"]), _signed(item["instructions_delta_real"]),
                     percent(error), *(_signed(apart[part]["instructions"]) for part in ("allocator", "program", "loader"))])
    return table_lines(rows, right=set(range(1, 8)))


def miss_lines(document: dict[str, Any]) -> list[str]:
    """Differences to the baseline, inside malloc, as predicted of that, and outside."""
    rows = [[f"less {document['baseline']}'s", "", *(title for _, title in _MISSES)]]
    for item in document["allocators"]:
        apart = item.get("count_differences") or {}
        for number, (part, place) in enumerate(_PLACES if apart else ()):
            rows.append(["" if number else item["name"], place, *(_signed(apart[part].get(key, 0)) for key, _ in _MISSES)])
    return table_lines(rows, right=set(range(2, 2 + len(_MISSES))))


def count_parts(document: dict[str, Any]) -> list[list[str]]:
    """The tables, each a list of lines."""
    title = "exact counts, by simulation; without start-up:"
    return [[title, *instruction_lines(document)], *([] if document["count"]["instructions_alone"] else [miss_lines(document)])]


def _table(columns: list[str], rows: list[list[str]], left: frozenset[int] = frozenset({0})) -> list[str]:
    return table_lines([columns, *rows], right=set(range(len(columns))) - left)


def _share(value: float | None) -> str:
    return f"{100 * value:+.1f} %" if value is not None and known(value) else MISSING


def _shares(error: dict[str, Any]) -> str:
    low, high = error["error_low"], error["error_high"]
    return f"[{100 * low:+.1f}, {100 * high:+.1f}]" if low is not None else ""


def _milliseconds(value_ns: float | None) -> str:
    return f"{value_ns / 1e6:+,.1f}" if value_ns is not None and known(value_ns) else MISSING


def validation_text(document: dict[str, Any]) -> str:
    """All of it; the document is that of --json."""
    good = [item for item in document["allocators"] if "memory" in item]
    parts = [_heading(document)]
    if "agreement" in document:
        parts += [_memory_table(good), _cpu_table(good, document["baseline"], document["server"])]
        if document["server"]:
            parts.append(_latency_table(good))
        parts.append(_agreement_lines(document))
    parts += count_parts(document) if "count" in document else []
    failed = [f"{item['name']}: failed: {item['problem']}" for item in document["allocators"] if item["problem"]]
    parts.append([*failed, *(f"warning: {line}" for line in document["warnings"])])
    return "\n\n".join("\n".join(part) for part in parts if part)


def _heading(document: dict[str, Any]) -> list[str]:
    recorded = document["recorded"]
    version = f" {recorded['allocator_version']}" if recorded["allocator_version"] else ""
    texts = (f"{document['program']}: {counted(recorded['calls'], 'call')} recorded under {recorded['allocator'] or MISSING}{version}, "
            f"{nanoseconds(recorded['cpu_ns'])} of CPU")
    return [texts + (f"; {counted(document['rounds'], 'round')}, seed {document['seed']}" if document["rounds"] else "")]


def _memory_table(good: list[dict[str, Any]]) -> list[str]:
    rows = []
    for item in good:
        cells = [item["name"]]
        for figure in ("peak", "mean"):
            it = item["memory"][figure]
            cells += [byte_count(it["predicted_bytes"]), byte_count(it["real_bytes"]), _share(it["error"]), _shares(it),
                      _share(it["heap_error"])]
        rows.append(cells)
    columns = ["predicted", "real", "error", "95 %", "of heap"]
    return _table(["allocator", f"peak RSS {columns[0]}", *columns[1:], f"mean RSS {columns[0]}", *columns[1:]], rows,
                  frozenset({0, 4, 9}))


def _cpu_table(good: list[dict[str, Any]], baseline: str, server: bool) -> list[str]:
    rows, modelled = [], any("modelled_difference_ns" in item["cpu"] for item in good)
    for item in good:
        cpu = item["cpu"]
        cells = [item["name"], nanoseconds(cpu["real_ns"])]
        if item["name"] == baseline:
            rows.append([*cells, "", *([""] if modelled else []), "baseline", "", "", "", *([""] if modelled else [])])
            continue
        low, high = cpu["real_low_ns"], cpu["real_high_ns"]
        interval = f"[{_milliseconds(low)}, {_milliseconds(high)}]" if low is not None else ""
        sign = {True: "yes", False: "no", None: ""}[cpu["sign_agrees"]]
        cells += [_milliseconds(cpu["predicted_difference_ns"]), *([_milliseconds(cpu.get("modelled_difference_ns"))] if modelled else [])]
        rows.append([*cells, _milliseconds(cpu["real_difference_ns"]), interval,
                     f"sign {'agrees' if sign == 'yes' else 'differs'}" if sign else "unresolved",
                     decimal(cpu["predicted_over_real"]), *([decimal(cpu.get("modelled_over_real"))] if modelled else [])])
    title = "CPU of the load" if server else "CPU"
    columns = ["allocator", title, f"less {baseline}'s, ms: predicted", *(["with accesses"] if modelled else []), "real", "95 %", "",
               "predicted / real", *(["with accesses / real"] if modelled else [])]
    return _table(columns, rows, frozenset({0, columns.index("95 %"), columns.index("95 %") + 1}))


def _latency_table(good: list[dict[str, Any]]) -> list[str]:
    rows = [[item["name"], *(nanoseconds(item["latency"][key]) for key in
             ("request_average_ns", "request_p50_ns", "request_p99_ns", "malloc_p99_ns", "free_p99_ns"))] for item in good]
    return _table(["allocator", "requests on average", "p50", "p99", "replayed malloc p99", "free p99"], rows)


def _agreement_lines(document: dict[str, Any]) -> list[str]:
    agreed, lines = document["agreement"], []
    titles = {"peak": "peak RSS", "mean": "mean RSS", "cpu": "CPU"}
    texts = [f"{title} {_order(agreed[name])}" for name, title in titles.items() if name in agreed]
    lines.append(f"rank correlation (Spearman): {', '.join(texts)}")
    for name in ("peak", "mean"):
        if name in agreed:
            best, worst = agreed[name]["best"], agreed[name]["worst"]
            lines.append(_ends_line(titles[name], best, worst))
    cpu = agreed["cpu"]
    lines.append(f"CPU: {cpu['resolved']} of {counted(cpu['pairs'], 'difference')} resolved, {cpu['signs_agree']} of them with the sign predicted")
    curve = document["curve"]
    lines.append(f"recorded RSS curve against that of {curve['allocator']}'s replay: {_share(curve['difference']).lstrip('+')} apart on average"
                 if curve else "recorded RSS curve: the recorded allocator was not replayed")
    return lines


def _order(agreed: dict[str, Any]) -> str:
    """An order of values that do not differ is chance, and no agreement."""
    differ = agreed["resolved"] > 0 if "resolved" in agreed else any(agreed[end]["agrees"] is not None for end in ("best", "worst"))
    return decimal(agreed["spearman"]) if differ else "n/a (no difference resolved)"


def _ends_line(title: str, best: dict[str, Any], worst: dict[str, Any]) -> str:
    if best["agrees"] is None and worst["agrees"] is None:
        expected = "" if set(best["predicted"]) == set(best["real"]) else \
            f" (predicted: least {', '.join(best['predicted'])}; most {', '.join(worst['predicted'])})"
        return f"{title}: the allocators do not differ{expected or ', as predicted'}"
    return f"{title}: least {_same(best)}; most {_same(worst)}"


def _same(ends: dict[str, Any]) -> str:
    predicted, real = ", ".join(ends["predicted"]), ", ".join(ends["real"])
    if ends["agrees"] is None:
        return "none: they do not differ"
    if ends["agrees"]:
        return f"{real} (as predicted)"
    return f"{real} (predicted: {predicted})"
