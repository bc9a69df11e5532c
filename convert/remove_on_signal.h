// Half a trace is of no use to anybody: an interrupted conversion removes it.
#ifndef HEAPTAPE_REMOVE_ON_SIGNAL_H
#define HEAPTAPE_REMOVE_ON_SIGNAL_H

// SIGINT, SIGTERM and SIGHUP remove the file and then end the process as they would have. NULL: as before.
void remove_on_signal(const char *path);

#endif
