// SPDX-License-Identifier: Apache-2.0
#include "bypass.h"
#include "elsewhere_note.h"
#include "loader.h"
#include "settings.h"
#include "sites.h"
#include "wrap.h"

// Objects that go past us may be gone by the exit: this is where they go.
EXPORT int dlclose(void *library) {
    struct thread_state *t = recorder_idle_thread();
    if (!real.dlclose) real.dlclose = symbol_behind_us("dlclose");
    if (t && !recorder_sealed) {
        // The loader may allocate while it lists its objects: that is not the program's.
        close_gate(t, GATE_BUSY_SETUP, stack_pointer());
        bypass_note(t->recording->header);
        elsewhere_note(t->recording->header);
        open_gate(t);
    }
    wrap_before_unload();
    int failed = real.dlclose ? real.dlclose(library) : -1;
    if (t && !recorder_sealed && settings.site_frames) {
        close_gate(t, GATE_BUSY_SETUP, stack_pointer());
        sites_after_unload();
        open_gate(t);
    }
    return failed;
}
