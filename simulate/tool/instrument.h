// SPDX-License-Identifier: GPL-3.0-or-later
#ifndef HEAPTAPE_INSTRUMENT_H
#define HEAPTAPE_INSTRUMENT_H

#include "tool.h"
#include <pub_tool_tooliface.h>

IRSB *instrument(VgCallbackClosure *closure, IRSB *in, const VexGuestLayout *layout,
                 const VexGuestExtents *extents, const VexArchInfo *machine, IRType guest_word,
                 IRType host_word);

#endif
