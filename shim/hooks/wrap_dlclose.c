#include "bypass.h"
#include "wrap.h"

// Such objects may be gone by the exit. This is where they go, and where the loader's lock is taken anyway.
EXPORT int dlclose(void *library) {
    struct thread_state *t = recorder_idle_thread();
    if (!real.dlclose) real.dlclose = symbol_behind_us("dlclose");
    if (t && !recorder_sealed) {
        // The loader may allocate while it lists its objects: that is not the program's.
        close_gate(t, GATE_BUSY_SETUP, stack_pointer());
        bypass_note(t->recording->header);
        open_gate(t);
    }
    return real.dlclose ? real.dlclose(library) : -1;
}
