// SPDX-License-Identifier: Apache-2.0
// Half an output is of no use to anybody: an interrupted process removes what it has begun.
#ifndef HEAPTAPE_REMOVE_ON_SIGNAL_H
#define HEAPTAPE_REMOVE_ON_SIGNAL_H

#include <signal.h>

// SIGINT, SIGTERM and SIGHUP wait meanwhile: for a file that has its name only when it is there. The mask as
// it was is for let_signals: signals that were blocked before stay blocked.
sigset_t hold_signals(void);
void let_signals(sigset_t as_before);
// From now on they remove the file, which need not be there yet, and then end the process as they would have.
void remove_on_signal(const char *path);
// The file is complete or gone.
void keep_on_signal(const char *path);

#endif
