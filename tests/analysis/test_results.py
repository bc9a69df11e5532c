# SPDX-License-Identifier: Apache-2.0
"""Reading results.jsonl."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import results_factory
from heaptape import ResultsError, ResultsWarning, read_results
from heaptape.__main__ import main
from heaptape.results.reader import count_failures
from heaptape.results.schema import NUMBERS


def test_one_row_per_run_flattened(tmp_path: Path) -> None:
    rows = results_factory.schedule(rounds=3)
    frame = read_results(results_factory.write(tmp_path / "r.jsonl", rows))
    assert len(frame) == len(rows) == 3 * 5 * 2
    for (_, read), row in zip(frame.iterrows(), rows, strict=True):
        assert read["allocator"] == row["allocator"]["name"]
        assert read["allocator_path"] == row["allocator"]["path"]
        assert (read["pass"], read["round"], read["seed"]) == (row["pass"], row["round"], str(row["seed"]))
        assert read["machine"]["cores"] == 2
        if row["pass"] == "time":
            assert read["alloc_time_ns"] == row["alloc_time_ns"] and read["calls"] == row["calls"]
            assert read["rss_peak_bytes"] != read["rss_peak_bytes"]
        else:
            assert read["rss_peak_bytes"] == row["rss_peak_bytes"]
            assert read["fragmentation_f4"] == row["fragmentation"]["f4"]
            assert read["timeline"]["rss_bytes"] == row["timeline"]["rss_bytes"]
    assert frame["line"].tolist() == list(range(1, 31))


def test_several_files_and_blank_lines(tmp_path: Path) -> None:
    first, second, third = (json.dumps(row) for row in results_factory.schedule(rounds=1)[:3])
    (tmp_path / "a.jsonl").write_text(f"{first}\n\n{second}\n")
    (tmp_path / "b.jsonl").write_text(third)
    frame = read_results([tmp_path / "a.jsonl", tmp_path / "b.jsonl"])
    assert frame["line"].tolist() == [1, 3, 1]
    assert [Path(source).name for source in frame["source"]] == ["a.jsonl", "a.jsonl", "b.jsonl"]


@pytest.mark.thorough
def test_a_name_of_bytes_that_are_no_characters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(os.fsdecode(bytes(tmp_path) + b"/r\xff\n.jsonl"))
    results_factory.write(path, results_factory.schedule(rounds=1))
    assert set(read_results(path)["source"]) == {str(path)}
    for words in (["compare"], ["compare", "--csv"], ["report", "-q", "-o", str(tmp_path / "page.html")]):
        assert main([*words, str(path)]) == 0
    assert capsys.readouterr().err == ""


def test_the_least_that_a_line_must_have(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text('{"trace": {}, "allocator": {"name": "new", "knobs": {"narenas": 1}}, "pass": "time", "round": 0, '
                    '"alloc_time_ns": null, "calls": null, "later": 3}\n')
    row = read_results(path).iloc[0]
    assert row["allocator_knobs"] == "narenas=1" and row["calls"] == {} and row["later"] == 3
    assert row["alloc_time_ns"] != row["alloc_time_ns"] and row["trace_sha256"] == "" and row["failures"] == 0


@pytest.mark.filterwarnings("error")
def test_many_columns_give_no_warning_about_their_frame(tmp_path: Path) -> None:
    """pandas warns of a frame in a hundred parts, which it becomes where columns are set one by one."""
    path = tmp_path / "r.jsonl"
    figures = {name: 0.5 for known in NUMBERS for name in (known, f"later_{known}")}
    path.write_text(json.dumps(_GOOD | figures) + "\n")
    frame = read_results(path)
    assert len(frame.columns) > 150


_GOOD = {"trace": {}, "allocator": {"name": "a"}, "pass": "time", "round": 0}


@pytest.mark.parametrize(("bad", "words"), [
    ("{", "expected one JSON object"),
    ("[]", "expected one JSON object, found a list"),
    ("[" * 100_000, "expected one JSON object"),
    ("\x00\x01", "expected one JSON object"),
    (json.dumps(_GOOD | {"trace": "t.bin"}), '"trace" to be an object'),
    (json.dumps(_GOOD | {"allocator": {}}), '"allocator.name" to be a text that is not empty, found nothing'),
    (json.dumps(_GOOD | {"pass": "speed"}), '"pass" to be "time", "memory", "verify", "limit", "count" or "group"'),
    (json.dumps(_GOOD | {"round": None}), '"round" to be a whole number, found null'),
    (json.dumps(_GOOD | {"alloc_time_ns": "12"}), '"alloc_time_ns" to be a number, found a text (12)'),
    (json.dumps(_GOOD | {"fragmentation": {"f4": []}}), '"fragmentation.f4" to be a number, found a list'),
    (json.dumps(_GOOD | {"timeline": 5}), '"timeline" to be an object, found a number (5)'),
    (json.dumps(_GOOD | {"schema": 2}), "schema 1, found 2"),
])
def test_a_bad_line_is_named(tmp_path: Path, bad: str, words: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps(_GOOD) + "\n" + bad + "\n")
    with pytest.raises(ResultsError) as caught:
        read_results(path)
    assert str(caught.value).startswith(f"{path}:2: ") and words in str(caught.value)


def test_a_last_line_cut_short_is_left_out_and_named(tmp_path: Path) -> None:
    path = results_factory.write(tmp_path / "r.jsonl", results_factory.schedule(rounds=1))
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.warns(ResultsWarning, match=r":10: cut short; the 9 runs before it were read"):
        frame = read_results(path)
    assert len(frame) == 9 and len(frame.attrs["cut_short"]) == 1


def test_a_cut_short_line_that_others_follow_is_refused(tmp_path: Path) -> None:
    path = results_factory.write(tmp_path / "r.jsonl", results_factory.schedule(rounds=1))
    path.write_bytes(path.read_bytes()[:-40] + b"\n" + path.read_bytes())
    with pytest.raises(ResultsError, match=":10: "):
        read_results(path)


def test_a_file_of_nothing_but_a_cut_short_line(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_text('{"schema": 1, "tra')
    with pytest.warns(ResultsWarning), pytest.raises(ResultsError, match="at least one run, found a line that is cut short"):
        read_results(tmp_path / "r.jsonl")


def test_nothing_to_read(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(ResultsError, match="at least one run"):
        read_results(tmp_path / "empty.jsonl")
    with pytest.raises(ResultsError, match="cannot read"):
        read_results(tmp_path / "absent.jsonl")


def test_failures_in_any_shape() -> None:
    assert [count_failures(v) for v in (None, 0, 3, [], ["a", "b"], {"malloc": 2, "free": 1}, float("nan"))] == [
        0, 0, 3, 0, 2, 3, 0]
