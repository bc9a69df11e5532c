# SPDX-License-Identifier: Apache-2.0
"""heaptape explain of a trace that goes on after its recording."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from service_load import Service, write_service
from tool_runner import Tools, run

QUICKLY = ("--budget", "0", "-q")


@pytest.fixture(scope="module")
def service(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Blocks that live for 0.2 s on average, for 8 s."""
    return write_service(tools, tmp_path_factory.mktemp("explained") / "service.bin", Service(duration_ms=8_000))


def explained(tools: Tools, *words: object) -> dict:
    return json.loads(tools.succeed([tools.heaptape, "explain", *map(str, words), "--json", *QUICKLY]).stdout)


@pytest.mark.thorough
def test_with_a_file_and_without(tools: Tools, service: Path, tmp_path: Path) -> None:
    tools.succeed([tools.heaptape, "extend", "-q", service, "--to", "40s", "-o", tmp_path / "long.bin"])
    of_file = explained(tools, tmp_path / "long.bin", "--at", "end")
    without = explained(tools, service, "--extend", "40s", "--at", "end")
    assert without["trace"] == str(service) and not without["extended"]["of_slice"]
    for key in ("time_ns", "event", "blocks", "rss_bytes", "accounts_bytes", "holders"):
        assert without[key] == of_file[key], key
    assert 39.8e9 < without["time_ns"] <= 40e9
    # A block that repetitions make is known by its birth in them: nothing that lives so briefly is from the recording.
    late = [holder for holder in without["holders"] if holder["windowed"]]
    assert without["blocks"] > 1000 and any(holder["born_from_ns"] > 38e9 for holder in late)


@pytest.mark.thorough
def test_it_says_what_is_extrapolated(tools: Tools, service: Path, tmp_path: Path) -> None:
    text = tools.succeed([tools.heaptape, "explain", service, "--extend", "20s", *QUICKLY]).stdout.decode()
    assert text.index("Extrapolated: time after ") < text.index(", as if the load stayed as between ") < text.index(" RSS under ")  # first
    plain = tools.succeed([tools.heaptape, "explain", service, *QUICKLY]).stdout.decode()
    assert "Extrapolated" not in plain and explained(tools, service)["extended"] is None
    tools.succeed([tools.heaptape, "extend", "-q", service, "--to", "20s", "-o", tmp_path / "long.bin"])
    tools.succeed([tools.heaptape, "slice", "-q", tmp_path / "long.bin", "--from-time", "10s", "-o", tmp_path / "late.bin"])
    cut = tools.succeed([tools.heaptape, "explain", tmp_path / "late.bin", *QUICKLY]).stdout.decode()
    assert " of the extension that this is a slice of, as if " in cut


@pytest.mark.parametrize(("to", "status", "words"), [
    ("4s", 2, "expected a time after the end of the recording"), ("soon", 2, "--extend"), ("1m", 5, "cannot be extended: ")])
def test_what_cannot_be_extended(tools: Tools, service: Path, tmp_path: Path, to: str, status: int, words: str) -> None:
    trace = service if status == 2 else write_service(tools, tmp_path / "day.bin", Service(leak=lambda part: 24 * part, duration_ms=6_000))
    done = run([tools.heaptape, "explain", trace, "--extend", to, *QUICKLY])
    assert done.returncode == status and words in done.stderr.decode() and not done.stdout
    assert done.stderr.decode().startswith("heaptape explain: ") and done.stderr.count(b"heaptape extend") == 0
