# SPDX-License-Identifier: Apache-2.0
"""Random numbers, intervals, what widens them, verdicts and outliers, on data of known truth."""

from __future__ import annotations

import math
import subprocess
import sys
from collections import Counter

import pytest
from heaptape.judge.intervals import (
    CONFIDENCE,
    INTERIM_CONFIDENCE,
    Random,
    median,
    more_rounds,
    more_rounds_text,
    outliers,
    paired_ratios,
    random_numbers,
    ratio_interval,
    verdict,
    widened,
)
from heaptape.judge.model import LESS, MORE, NONE, SAME, UNRESOLVED, Interval

NAN = math.nan


def _uniform(random: Random) -> float:
    return random.below(1_000_000) / 1e6


def _noisy(random: Random, spread: float) -> float:
    """Log-normal, about, with one value in ten that is far too large: what shared machines do to times."""
    middle = sum(_uniform(random) for _ in range(12)) - 6
    disturbed = 1 + _uniform(random) if _uniform(random) < 0.1 else 1.0
    return math.exp(middle * spread) * disturbed


def test_random_numbers_are_those_of_splitmix64() -> None:
    """The first of seed 0, as its authors list them."""
    random = Random(0)
    numbers = [random.next() for _ in range(3)]
    assert numbers == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F] == random_numbers(0, 0, 3).tolist()
    assert Random(random.state).next() == random_numbers(0, 3, 1)[0]


def test_orders_are_those_of_the_runner() -> None:
    """As ht_random_order draws them."""
    random = Random(42)
    assert [random.order(8) for _ in range(3)] == [[4, 6, 1, 0, 2, 5, 7, 3], [2, 7, 4, 5, 6, 1, 0, 3], [5, 0, 3, 1, 7, 2, 4, 6]]
    assert random.state == 15362738631823041058


def test_everybody_comes_to_every_place() -> None:
    random, rounds = Random(42), 2_000
    places: Counter[tuple[int, int]] = Counter()
    for _ in range(rounds):
        order = random.order(5)
        assert sorted(order) == list(range(5))
        places.update(enumerate(order))
    assert len(places) == 25 and all(rounds / 5 * 0.85 < count < rounds / 5 * 1.15 for count in places.values())


def test_medians() -> None:
    assert median([3, 1, 2]) == 2 and median([4, 1, 3, 2]) == 2.5 and math.isnan(median([]))


@pytest.mark.parametrize(("count", "confidence", "expected"), [
    (2, CONFIDENCE, (1.0849609375, 0.68214963291368336, 1.7233403272272179)),
    (5, CONFIDENCE, (0.8662109375, 0.76998131746658804, 1.0731932750373503)),
    (5, INTERIM_CONFIDENCE, (0.8662109375, 0.76998131746658804, 1.0731932750373503)),
    (6, CONFIDENCE, (0.9991455078125, 0.778076171875, 1.16162109375)),
    (6, INTERIM_CONFIDENCE, (0.9991455078125, 0.778076171875, 1.16162109375)),
    (13, CONFIDENCE, (1.01318359375, 0.914306640625, 1.11279296875)),
    (13, INTERIM_CONFIDENCE, (1.01318359375, 0.895751953125, 1.13427734375)),
    (18, CONFIDENCE, (0.9873046875, 0.81591796875, 1.1640625)),
    (18, INTERIM_CONFIDENCE, (0.9873046875, 0.783447265625, 1.18115234375)),
    (40, CONFIDENCE, (1.0399169921875, 0.95068359375, 1.081298828125)),
    (40, INTERIM_CONFIDENCE, (1.0399169921875, 0.8994140625, 1.104736328125)),
    (301, CONFIDENCE, (1.022216796875, 0.9833984375, 1.044677734375)),
    (301, INTERIM_CONFIDENCE, (1.022216796875, 0.9697265625, 1.05322265625)),
])
def test_intervals_are_to_the_bit_what_they_always_were(count: int, confidence: float, expected: tuple[float, float, float]) -> None:
    """The numbers are those of the judge in C, which an experiment of an older version ended by."""
    random = Random(count)
    found = ratio_interval([0.75 + random.below(2048) / 4096 for _ in range(count)], confidence)
    assert (found.estimate, found.low, found.high) == expected and found.count == count


@pytest.mark.parametrize("rounds", [4, 9, 15, 40])
def test_intervals_cover_the_truth(rounds: int) -> None:
    """Of many experiments with a known ratio, about 95 % of the intervals hold it."""
    random, experiments, covered = Random(5 + rounds), 200, 0
    for _ in range(experiments):
        found = ratio_interval(0.8 * _noisy(random, 0.05) / _noisy(random, 0.05) for _ in range(rounds))
        assert found.low <= found.estimate <= found.high
        covered += found.low <= 0.8 <= found.high
    assert covered >= experiments * 0.91


def test_the_stricter_interval_holds_the_other() -> None:
    random = Random(3)
    ratios = [_noisy(random, 0.1) for _ in range(18)]
    shown, strict = ratio_interval(ratios), ratio_interval(ratios, INTERIM_CONFIDENCE)
    assert strict.low < shown.low and shown.high < strict.high and strict.estimate == shown.estimate


def test_few_rounds_are_judged_by_student() -> None:
    one = ratio_interval([0.5])
    assert one.estimate == 0.5 and math.isnan(one.low) and math.isnan(one.high) and one.count == 1
    # Logarithms ln 2 either side of 0: standard deviation sqrt(2) ln 2, half-width t * ln 2.
    two = ratio_interval([0.5, 2])
    assert math.log(two.high) == pytest.approx(12.706 * math.log(2)) and two.low * two.high == pytest.approx(1)
    hidden = ratio_interval([0.5, 0.6, 0, 0.4])
    assert hidden.estimate == 0.45 and math.isnan(hidden.low) and hidden.count == 4 and verdict(hidden) == UNRESOLVED
    nothing = ratio_interval([])
    assert math.isnan(nothing.estimate) and nothing.count == 0 and verdict(nothing) == NONE


def test_a_round_whose_figure_the_harness_hides_has_a_place_and_no_size() -> None:
    """The figure is less than any above 0, of a failed run nothing is known."""
    assert paired_ratios([6, -1, 0, 5, NAN], [3, 2, 1, 0, 1]) == [2, 0, 0, math.inf]
    both = paired_ratios([-1, 4], [0, 2])
    assert math.isnan(both[0]) and both[1:] == [2]
    assert ratio_interval(both).count == 1 and ratio_interval(both).hidden == 0.5


def test_few_hidden_rounds_widen_and_many_leave_no_verdict() -> None:
    clear, exact = [0.7 + number / 100 for number in range(11)], ratio_interval([1.0] * 10)
    one, ten = ratio_interval([*clear, math.inf]), ratio_interval([*clear[:9], math.inf])
    assert one.estimate == pytest.approx(0.755) and clear[1] < one.low < one.high <= clear[-1] and ten.hidden == 0.1
    assert one.low > ratio_interval(clear).low and verdict(widened(one, exact)) == LESS and verdict(ten) == UNRESOLVED
    # The control's rounds count as well: it is the baseline's second run.
    for wide in (widened(ten, exact), widened(ratio_interval(clear), ten)):
        assert math.isnan(wide.low) and wide.is_hidden and verdict(wide) == UNRESOLVED and math.isnan(more_rounds(wide))
    # No interval ends where nothing is known.
    for ratios in ([0.0] * 9, [math.inf] * 9, [0.5, *[math.inf] * 8], [0.0] * 4 + [math.inf] * 4, [NAN] * 9):
        none = ratio_interval(ratios)
        assert math.isnan(none.estimate) and math.isnan(none.low) and math.isnan(none.high) and verdict(none) == UNRESOLVED


def _bell(random: Random) -> float:
    return sum(_uniform(random) for _ in range(12)) - 6


@pytest.mark.parametrize("rounds", [12, 40])
def test_hidden_rounds_do_not_favour_who_has_them(rounds: int) -> None:
    """A harness that is off by as much as hides one time in twenty: to leave such rounds out makes what is slower by a tenth look
    closer to the baseline."""
    random, counted, left_out, covered, experiments = Random(rounds), [], [], 0, 400
    for _ in range(experiments):
        harness = [_bell(random) / 1.645 for _ in range(rounds)]
        mine, base = ([truth + off + _bell(random) / 6 for off in harness] for truth in (1.1, 1.0))
        found = ratio_interval(paired_ratios(mine, base))
        covered += found.low <= 1.1 <= found.high
        counted.append(found.estimate)
        left_out.append(median(one / other for one, other in zip(mine, base, strict=True) if one > 0 and other > 0))
    assert median(left_out) < median(counted) - 0.002 and median(counted) > 1.08
    assert covered >= experiments * 0.93


def test_ratios_of_any_size_have_an_interval() -> None:
    found = ratio_interval([1e-300, 1e300])
    assert 0 < found.low < 1e-300 and 1e300 < found.high < math.inf
    assert verdict(widened(found, found)) == UNRESOLVED


@pytest.mark.parametrize(("interval", "expected"), [
    ((0.55, 0.5, 0.6), LESS), ((1.25, 1.2, 1.3), MORE), ((1, 0.995, 1.005), SAME), ((1, 0.9, 1.1), UNRESOLVED),
    ((1.02, 1.0, 1.05), UNRESOLVED), ((0.995, 0.991, 0.998), SAME), ((0.5, NAN, NAN), UNRESOLVED), ((NAN, NAN, NAN), NONE)])
def test_verdicts_say_when_they_do_not_know(interval: tuple[float, float, float], expected: str) -> None:
    assert verdict(Interval(*interval, 5)) == expected


def test_the_control_widens() -> None:
    ratio = Interval(0.9, 0.9 * math.exp(-0.03), 0.9 * math.exp(0.03), 20)
    wide = widened(ratio, Interval(1, math.exp(-0.04), math.exp(0.01), 20))
    assert math.log(wide.high / 0.9) == pytest.approx(0.05) == pytest.approx(math.log(0.9 / wide.low))
    assert wide.estimate == 0.9 and wide.count == 20
    exact = widened(ratio, Interval(1, 1, 1, 20))
    assert (exact.low, exact.high) == pytest.approx((ratio.low, ratio.high), rel=1e-12)
    assert widened(ratio, Interval(NAN, NAN, NAN, 0)) == ratio
    # A machine on which the baseline differs from itself by 20 % tells no 10 % from nothing.
    assert verdict(ratio) == LESS and verdict(widened(ratio, Interval(1.2, 1.19, 1.21, 20))) == UNRESOLVED


def test_what_is_the_same_is_seldom_found_different() -> None:
    """The baseline against itself, its control running in the same rounds."""
    random, experiments, plain, wide = Random(77), 200, 0, 0
    for _ in range(experiments):
        base, one, again = ([_noisy(random, 0.1) for _ in range(20)] for _ in range(3))
        ratio = ratio_interval(x / y for x, y in zip(one, base, strict=True))
        control = ratio_interval(x / y for x, y in zip(again, base, strict=True))
        plain += verdict(ratio) in (LESS, MORE)
        wide += verdict(widened(ratio, control)) in (LESS, MORE)
    assert 1 <= plain <= experiments / 10 and wide <= experiments / 100


@pytest.mark.parametrize(("rounds", "tables"), [(3, 250), (5, 250), (20, 120)])
def test_a_table_of_equal_allocators_seldom_tells_any_apart(rounds: int, tables: int) -> None:
    """Seven comparisons of each of four figures: the widening is what holds them all to 5 % together. Without it about half of all
    tables have a false verdict (bench/figures/aa.py --simulate)."""
    random, plain, wide = Random(rounds), 0, 0
    for _ in range(tables):
        said_plain = said_wide = False
        for _ in range(4):
            base, again, *others = ([1 + 0.02 * (_uniform(random) + _uniform(random) - 1) for _ in range(rounds)] for _ in range(9))
            control, ratios = ratio_interval(paired_ratios(again, base)), [ratio_interval(paired_ratios(one, base)) for one in others]
            said_plain |= any(verdict(ratio) in (LESS, MORE) for ratio in ratios)
            said_wide |= any(verdict(widened(ratio, control)) in (LESS, MORE) for ratio in ratios)
        plain, wide = plain + said_plain, wide + said_wide
    assert plain > 0.25 * tables and wide <= 0.05 * tables


def test_more_rounds_shrink_with_the_distance() -> None:
    near, far = Interval(0.97, 0.93, 1.01, 10), Interval(0.95, 0.90, 1.01, 10)
    assert more_rounds(near) > more_rounds(far) >= 1
    assert 25 <= more_rounds(Interval(1, 0.98, 1.02, 10)) <= 35
    assert math.isnan(more_rounds(Interval(1, NAN, NAN, 1)))


@pytest.mark.parametrize(("more", "words"), [
    (1, "needs about 1 more round"), (35, "needs about 35 more rounds"), (1_000, "needs about 1000 more rounds"),
    (1_001, "needs over 1,000 more rounds"), (math.inf, "needs over 1,000 more rounds")])
def test_more_rounds_in_words(more: float, words: str) -> None:
    assert more_rounds_text(more) == words


def test_outliers_by_hand() -> None:
    # Median 10, absolute deviations 0 0 1 1 2 90, their median 1: 12 is within 3.5 / 0.6745 of it, 100 is not.
    assert outliers([10, 9, NAN, 11, 10, 12, 100]) == [6]
    # Where more than half are equal the mean deviation decides: 0.2 * 1.2533, so 6 is at 4.
    assert outliers([5, 5, 5, 5, 6]) == [4]
    assert outliers([5, 5, 5]) == outliers([NAN]) == outliers([]) == []


def test_the_judge_starts_without_numpy_and_pandas() -> None:
    """Who runs few rounds does not wait for what draws samples."""
    code = ("import sys; from heaptape.judge import beside, comparison, intervals, schedule, text; "
            "intervals.ratio_interval([1, 2, 3]); print({'numpy', 'pandas', 'scipy'} & set(sys.modules))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "set()\n"
