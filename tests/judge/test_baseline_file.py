# SPDX-License-Identifier: Apache-2.0
"""Files of --write-baseline, and what --baseline-file takes for one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from heaptape.base.errors import HeaptapeError
from heaptape.judge.baseline_file import read, write
from heaptape.judge.comparison import of_counts
from heaptape.judge.model import Json
from judged_comparisons import comparison, context, counted, steady

CONDITIONS = ("rss_peak>1.05", "instructions>1.01")
COUNTS = {"glibc": counted(1000), "jemalloc": counted(1100)}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "b.json"
    write(str(path), comparison(context(), steady(1.2), COUNTS))
    return path


def _read(path: Path, **more: Any) -> Json:
    ours = context(conditions=CONDITIONS, **more)
    return read(str(path), ours.baseline_facts, [choice.name for choice in ours.choices], ours.conditions)


def refused(path: Path, **more: Any) -> str:
    with pytest.raises(HeaptapeError) as error:
        _read(path, **more)
    assert error.value.exit_status == 3 and "\n" not in str(error.value)
    return str(error.value).removeprefix(f"{path}: ")


def test_what_is_written_is_read(file: Path) -> None:
    found = _read(file)
    assert list(found) == ["glibc", "jemalloc"]
    assert list(found["glibc"]) == ["version", "build_id", "rss_peak_bytes", "rss_mean_bytes", "rss_end_bytes", "process_rss_peak_bytes", "counts"]
    assert len(found["glibc"]["rss_peak_bytes"]) == 8 and all(type(value) is int for value in found["glibc"]["rss_peak_bytes"])
    # What a model of this machine made of counts is not kept.
    assert found["glibc"]["counts"]["allocator"] == {"instructions": 1000, "mapping_calls": 4, "faults": 60}
    text = file.read_text()
    assert text.startswith('{\n "format": "heaptape-baseline",\n "version": 1,\n') and text.endswith("}\n") and '"age_occupancy": 0.0' in text


def test_of_counts_alone(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    write(str(path), of_counts(context(count_pass=True), {"glibc": counted(1000)}, None))
    found = json.loads(path.read_text())["allocators"]
    assert found["glibc"]["rss_peak_bytes"] == [] and found["jemalloc"]["counts"] is None and "time" not in found["glibc"]["counts"]


Change = Callable[[Json], object]


def in_entry(**more: Any) -> Change:
    return lambda root: root["allocators"]["glibc"].update(more)


@pytest.mark.parametrize(("change", "said"), [
    (lambda root: root.update(format="other"), 'format: expected "heaptape-baseline", found "other"'),
    (lambda root: root.pop("format"), 'format: expected "heaptape-baseline", found nothing'),
    (lambda root: root.update(version=2), "version: expected 1, found 2"),
    (lambda root: root.update(version=1.0), "version: expected 1, found 1.0"),
    (lambda root: root.update(allocators=5), "allocators: expected an object, found none"),
    (lambda root: root["trace"].update(sha256="cd"), 'trace.sha256: expected "ab", as this run has, found "cd"'),
    (lambda root: root["settings"].update(age_occupancy=0), "settings.age_occupancy: expected 0.0, as this run has, found 0"),
    (lambda root: root["settings"].pop("extended"), "settings.extended: expected null, as this run has, found nothing"),
    (lambda root: root["machine"].update(libc=["x" * 200]), f'machine.libc: expected "glibc 2.36", as this run has, found ["{"x" * 98}'),
    (lambda root: root["allocators"].pop("glibc") and root["allocators"].update(other={}),
     "allocators: expected an entry glibc, or a single one, found neither"),
    (in_entry(rss_peak_bytes=1), "allocators.glibc.rss_peak_bytes: expected a list, found 1"),
    (in_entry(rss_peak_bytes=[1, "x"]), 'allocators.glibc.rss_peak_bytes: expected numbers of bytes, found "x"'),
    (in_entry(rss_mean_bytes=[True]), "allocators.glibc.rss_mean_bytes: expected numbers of bytes, found true"),
    (in_entry(rss_end_bytes=[-1]), "allocators.glibc.rss_end_bytes: expected numbers of bytes, found -1"),
    (in_entry(rss_peak_bytes=[536576, 536576, 12]), "allocators.glibc.rss_peak_bytes: expected rounds within 4 times of their median, 536576, found 12"),
    (in_entry(rss_peak_bytes=[]), "allocators.glibc: --fail-if rss_peak>1.05: expected figures for it, found none"),
    (in_entry(counts=None), "allocators.glibc: --fail-if instructions>1.01: expected figures for it, found none"),
    (in_entry(counts={"allocator": {"faults": -5}}), "allocators.glibc.counts.allocator.faults: expected a count, found -5"),
    (in_entry(counts={"calls_by_size": [{"calls": -1}]}), "allocators.glibc.counts.calls_by_size.0.calls: expected a count, found -1"),
])
def test_what_is_no_baseline_of_this_run(file: Path, change: Change, said: str) -> None:
    root = json.loads(file.read_text())
    change(root)
    file.write_text(json.dumps(root))
    assert refused(file) == said


def test_one_entry_is_for_any_allocator(file: Path) -> None:
    root = json.loads(file.read_text())
    del root["allocators"]["glibc"]
    # What is less the null replayer's may be below 0.
    root["allocators"]["jemalloc"]["counts"]["time"] = {"faults": -3}
    file.write_text(json.dumps(root))
    assert list(_read(file)) == ["jemalloc"]


@pytest.mark.parametrize(("content", "said"), [
    (b"", "offset 0: expected a baseline, as --write-baseline writes it, found an empty file"),
    (b" \n", "offset 0: expected a baseline, as --write-baseline writes it, found an empty file"),
    (b"x", "offset 0: expected a baseline, as --write-baseline writes it, found another file"),
    (b"5", "offset 0: expected a baseline, as --write-baseline writes it, found another file"),
    (b"\xff\x00", "offset 0: expected a baseline, as --write-baseline writes it, found another file"),
    (b"[]", 'format: expected "heaptape-baseline", found nothing'),
    (b"{", "offset 1: line 1: expected JSON, found: string or '}' expected near end of file"),
    (b'{"format": ', "offset 11: line 1: expected JSON, found: unexpected token near end of file"),
    (b'{"format":\n "heap', "offset 17: line 2: expected JSON, found: premature end of input near '\"heap'"),
    (b'{"a": [1, 2', "offset 11: line 1: expected JSON, found: ']' expected near end of file"),
    (b'{"a": [1], "b": "]" 2}', "offset 21: line 1: expected JSON, found: '}' expected near '2'"),
    (b'{} {', "offset 4: line 1: expected JSON, found: end of file expected near '{'"),
    (b'{"a" 1}', "offset 6: line 1: expected JSON, found: ':' expected near '1'"),
    (b'{"\xc3\xa4": 1,\n "a": x}', "offset 17: line 2: expected JSON, found: unexpected token near 'x'"),
    (b'{"a": "\xff"}', "offset 7: line 1: expected JSON, found: unable to decode byte 0xff"),
    (b'{"a": 1, "a": 2}', "offset 16: line 1: expected JSON, found: duplicate object key"),
    (b'{"a": 1e999}', "offset 12: line 1: expected JSON, found: real number overflow"),
    (b'{"a": NaN}', "offset 10: line 1: expected JSON, found: invalid token"),
    (b'{"a": ' + b"[" * 100_000, "offset 100006: line 1: expected JSON, found: what is nested too deeply"),
])
def test_what_is_no_json(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    assert refused(path).startswith(said)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    assert refused(tmp_path / "none.json") == "cannot be read: No such file or directory"


@pytest.mark.parametrize(("name", "said"), [("no/such/b.json", "cannot be created: No such file or directory"), (".", "cannot be created: Is a directory"),
                                            ("/dev/full", "cannot be written: No space left on device")])
def test_a_file_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, said: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(HeaptapeError) as error:
        write(name, comparison(context(), steady(1.2)))
    assert (error.value.exit_status, str(error.value)) == (1, f"{name}: {said}") and not list(tmp_path.iterdir())
