// SPDX-License-Identifier: Apache-2.0
#include "replay_plan.h"

const char *const ht_touch_names[HT_TOUCHES] = {"none", "first", "pages", "all", "recorded"};
const char *const ht_touch_free_names[HT_TOUCH_FREES] = {"none", "read", "write", "recorded"};
