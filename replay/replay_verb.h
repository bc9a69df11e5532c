// SPDX-License-Identifier: Apache-2.0
// `replay`, the launcher: decodes a trace once, replays it against each allocator in processes of their own,
// and compares. It is never measured itself.
#ifndef HEAPTAPE_REPLAY_VERB_H
#define HEAPTAPE_REPLAY_VERB_H

// argv[0] is the name to use in messages. Returns the exit status.
int ht_verb_replay(int argc, char **argv);

#endif
