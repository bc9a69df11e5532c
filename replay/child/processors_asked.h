// Whether somebody in this process asked on which of the shown processors it runs, without the kernel's help.
#ifndef HEAPTAPE_PROCESSORS_ASKED_H
#define HEAPTAPE_PROCESSORS_ASKED_H

#include <stdbool.h>

bool ht_processors_asked(void);

#endif
