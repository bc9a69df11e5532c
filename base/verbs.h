// The verbs of the heaptape program. Each gets argv from its own name on, and returns an exit status.
#ifndef HEAPTAPE_VERBS_H
#define HEAPTAPE_VERBS_H

int ht_verb_record(int argc, char **argv);
int ht_verb_ctl(int argc, char **argv);
int ht_verb_convert(int argc, char **argv);
int ht_verb_info(int argc, char **argv);
int ht_verb_dump(int argc, char **argv);
int ht_verb_slice(int argc, char **argv);
int ht_verb_lint(int argc, char **argv);
int ht_verb_stats(int argc, char **argv);
int ht_verb_replay(int argc, char **argv);
int ht_verb_python(int argc, char **argv);

#endif
