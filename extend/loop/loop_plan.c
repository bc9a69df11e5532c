// SPDX-License-Identifier: Apache-2.0
#include "loop_plan.h"

#include <stdlib.h>

void loop_plan_free(struct loop_plan *plan) {
    free(plan->sections);
    free(plan->threads);
    free(plan->play);
    free(plan->predecessor);
    free(plan->left_out);
    free(plan->births);
    *plan = (struct loop_plan){0};
}
