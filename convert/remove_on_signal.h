// Half a trace is of no use to anybody: an interrupted conversion removes it.
#ifndef HEAPTAPE_REMOVE_ON_SIGNAL_H
#define HEAPTAPE_REMOVE_ON_SIGNAL_H

// From here on SIGINT, SIGTERM and SIGHUP wait, so that none comes between the making of a file and the next.
void hold_signals(void);
// They remove the file and then end the process as they would have. NULL: as before.
void remove_on_signal(const char *path);

#endif
