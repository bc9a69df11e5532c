// SPDX-License-Identifier: Apache-2.0
// What heaptape lint says: as JSON, and as text for people.
#ifndef HEAPTAPE_LINT_REPORT_H
#define HEAPTAPE_LINT_REPORT_H

#include <jansson.h>

#include "lint_checks.h"

json_t *lint_report_json(const struct lint *lint, const char *path);
// part: of the file, the rest of which is damaged.
void lint_report_text(const struct lint *lint, const char *path, bool part);

#endif
