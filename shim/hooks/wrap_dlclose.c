#include "bypass.h"
#include "settings.h"
#include "sites.h"
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
    int failed = real.dlclose ? real.dlclose(library) : -1;
    if (t && !recorder_sealed && settings.site_frames) {
        close_gate(t, GATE_BUSY_SETUP, stack_pointer());
        sites_after_unload();
        open_gate(t);
    }
    return failed;
}
