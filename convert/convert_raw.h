// A raw log becomes a trace, with what it inherited from its parent's log.
#ifndef HEAPTAPE_CONVERT_RAW_H
#define HEAPTAPE_CONVERT_RAW_H

#include "convert_request.h"
#include "error.h"

// Returns 0 or -1 with error.
int convert_raw(const struct convert_request *request, struct ht_error *error);

#endif
