#include "failing_runs.h"

#include "say.h"

bool ht_failing_runs_note(struct ht_failing_runs *failing, uint32_t round, const char *problem) {
    failing->runs++;
    if (!problem) return false;
    bool before = ht_failing_runs_given_up(failing);
    bool follows = failing->rounds_in_a_row && failing->last_failed_round + 1 == round;
    bool same = failing->rounds_in_a_row && failing->last_failed_round == round;
    failing->failed++;
    failing->rounds_in_a_row = same ? failing->rounds_in_a_row : follows ? failing->rounds_in_a_row + 1 : 1;
    failing->last_failed_round = round;
    snprintf(failing->problem, sizeof failing->problem, "%s", problem);
    return !before && ht_failing_runs_given_up(failing);
}

void ht_failing_runs_print(FILE *out, const struct ht_failing_runs *failing, const char *name) {
    if (!failing->failed) return;
    ht_say(out, "missing: %s failed in %u of %u runs%s; the last: %s\n", name, failing->failed,
            failing->runs, ht_failing_runs_given_up(failing) ? ", and was given up" : "", failing->problem);
}

void ht_failing_runs_json(json_t *allocator, const struct ht_failing_runs *failing) {
    json_t *problem = failing->failed ? json_string(failing->problem) : NULL;
    json_object_set_new(allocator, "failed_runs", json_integer(failing->failed));
    json_object_set_new(allocator, "given_up", json_boolean(ht_failing_runs_given_up(failing)));
    json_object_set_new(allocator, "problem", problem ? problem : json_null());
}
