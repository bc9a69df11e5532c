// SPDX-License-Identifier: Apache-2.0
#include "compared_figure.h"

const struct ht_figure_words ht_figure_words[HT_FIGURES] = {
    {"time", "alloc_time_ns", "faster", "slower"},
    {"rss_peak", "rss_peak_bytes", "smaller", "larger"},
    {"rss_mean", "rss_mean_bytes", "smaller", "larger"},
    {"rss_end", "rss_end_bytes", "smaller", "larger"},
    {"process_rss_peak", "process_rss_peak_bytes", "smaller", "larger"},
};
