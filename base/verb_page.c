// SPDX-License-Identifier: Apache-2.0
#include "verb_page.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "talk.h"

enum {
    KEY_USAGE = 0x10000,
    HELP_COLUMN = 29,
    WIDTH_MAX = 100,
    COMMAND_COLUMN = 13,
    LIST_COLUMN = 6,
    STATUS_COLUMN = 9,
    HEAD_BYTES = 200
};

const struct argp_option ht_page_options[] = {{"help", 'h', NULL, 0, "Print this help", 0},
                                              {"usage", KEY_USAGE, NULL, 0, "Print the usage", 0},
                                              {"version", 'V', NULL, 0, "Print the version", 0},
                                              {0}};

struct sheet {
    FILE *out;
    int width, column;
};

static void put(struct sheet *sheet, const char *text, size_t length) {
    fwrite(text, length, 1, sheet->out);
    sheet->column += (int)length;
}

static void begin_line(struct sheet *sheet, int column) {
    fprintf(sheet->out, "\n%*s", column, "");
    sheet->column = column;
}

// Words as far as the width goes; a newline of the text begins a line.
static void fill(struct sheet *sheet, const char *text, int indent) {
    while (*text) {
        size_t length = strcspn(text, " \n");
        bool begun = sheet->column > indent;
        if (begun && sheet->column + 1 + (int)length > sheet->width) begin_line(sheet, indent);
        else if (begun) put(sheet, " ", 1);
        put(sheet, text, length);
        text += length;
        if (*text == '\n') begin_line(sheet, indent);
        text += *text != 0;
    }
}

// Too long for a line, it goes on behind one of its bars.
static void put_head(struct sheet *sheet, const char *head) {
    enum { INDENT = 8 };
    while (*head) {
        size_t length = strcspn(head, "|");
        length += head[length] == '|';
        if (sheet->column > INDENT && sheet->column + (int)length > sheet->width) begin_line(sheet, INDENT);
        put(sheet, head, length);
        head += length;
    }
}

static void print_item(struct sheet *sheet, const char *head, const char *help, int indent) {
    sheet->column = 0;
    put(sheet, "  ", 2);
    put_head(sheet, head);
    if (sheet->column + 2 > indent) begin_line(sheet, indent);
    while (sheet->column < indent) put(sheet, " ", 1);
    fill(sheet, help, indent);
    fputc('\n', sheet->out);
}

static void print_paragraph(struct sheet *sheet, const char *text, size_t length) {
    char *copy = strndup(text, length);
    sheet->column = 0;
    if (copy) fill(sheet, copy, 0);
    fputc('\n', sheet->out);
    free(copy);
}

static void print_option(struct sheet *sheet, const struct argp_option *option, const char *help) {
    char head[HEAD_BYTES], letter[] = "-x, ";
    letter[1] = (char)option->key;
    snprintf(head, sizeof head, "%s--%s%s%s", option->key < 0x80 ? letter : "    ", option->name,
             option->arg ? "=" : "", option->arg ? option->arg : "");
    print_item(sheet, head, help, HELP_COLUMN);
}

static void print_options(struct sheet *sheet, const struct argp_option *option) {
    for (; option && option->name; option++) print_option(sheet, option, option->doc);
}

// How much of a help says what the option does; the rest says how.
static size_t brief_length(const char *help) {
    size_t length = 0;
    while (help[length] && strncmp(help + length, ": ", 2) && strncmp(help + length, "; ", 2) &&
           strncmp(help + length, ". ", 2) && strncmp(help + length, " (", 2))
        length++;
    return length;
}

static void print_group(struct sheet *sheet, const struct ht_page *page, int group, bool brief) {
    for (const struct argp_option *option = page->argp->options; option->name; option++) {
        if (option->group != group) continue;
        char *help = strndup(option->doc, brief ? brief_length(option->doc) : strlen(option->doc));
        if (help) print_option(sheet, option, help);
        free(help);
    }
}

static void print_list(struct sheet *sheet, const char *title, const struct ht_fact *fact, int indent) {
    if (!fact) return;
    fprintf(sheet->out, "\n%s:\n", title);
    for (; fact->name; fact++) print_item(sheet, fact->name, fact->help, indent);
}

static void print_usage(FILE *out, const struct ht_page *page, const char *name) {
    const char *at = page->argp->args_doc, *before = "Usage:";
    for (; at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL, before = "   or:")
        fprintf(out, "%s %s [OPTION...] %.*s\n", before, name, (int)strcspn(at, "\n"), at);
}

static void print_see_also(struct sheet *sheet, const char *verbs) {
    fputs("\nSee also:", sheet->out);
    for (const char *at = verbs; *at; at += strcspn(at, " "), at += *at != 0)
        fprintf(sheet->out, "%s heaptape %.*s", at > verbs ? "," : "", (int)strcspn(at, " "), at);
    fputc('\n', sheet->out);
}

void ht_page_print(FILE *out, const struct ht_page *page, const char *name) {
    int columns = ht_terminal_columns(out);
    struct sheet sheet = {out, (!columns ? 80 : columns < WIDTH_MAX ? columns : WIDTH_MAX) - 1, 0};
    const char *doc = page->argp->doc, *notes = strchr(doc, '\v');
    print_usage(out, page, name);
    print_paragraph(&sheet, doc, strcspn(doc, "\v"));
    print_list(&sheet, "Verbs", page->commands, COMMAND_COLUMN);
    fputc('\n', out);
    for (int group = 0; page->groups && page->groups[group]; group++) {
        fprintf(out, "%s%s:\n", group ? "\n" : "", page->groups[group]);
        print_group(&sheet, page, group, false);
    }
    if (!page->groups) print_options(&sheet, page->argp->options);
    for (const struct argp_child *child = page->argp->children; child && child->argp; child++)
        print_options(&sheet, child->argp->options);
    if (page->groups) fputc('\n', out);
    print_options(&sheet, ht_page_options);
    if (notes) {
        fputc('\n', out);
        print_paragraph(&sheet, notes + 1, strlen(notes + 1));
    }
    print_list(&sheet, "Files", page->files, HELP_COLUMN);
    print_list(&sheet, "Environment", page->environment, HELP_COLUMN);
    if (page->see_also) print_see_also(&sheet, page->see_also);
    print_list(&sheet, page->examples[1].name ? "Examples" : "Example", page->examples, LIST_COLUMN);
    print_list(&sheet, "Exit status", page->statuses, STATUS_COLUMN);
}

void ht_page_print_brief(FILE *out, const struct ht_page *page, const char *name) {
    int columns = ht_terminal_columns(out);
    struct sheet sheet = {out, (!columns ? 80 : columns < WIDTH_MAX ? columns : WIDTH_MAX) - 1, 0};
    print_usage(out, page, name);
    fputc('\n', out);
    print_group(&sheet, page, 0, true);
    fprintf(out, "\nAll options: %s --help\n", name);
}

static error_t parse_usual(int key, char *value, struct argp_state *state) {
    const struct ht_page *page = state->input;
    (void)value;
    bool brief = key == 'h' && page->groups && strncmp(state->argv[state->next - 1], "--", 2) != 0;
    if (brief) ht_page_print_brief(state->out_stream, page, state->name);
    else if (key == 'h') ht_page_print(state->out_stream, page, state->name);
    else if (key == KEY_USAGE) print_usage(state->out_stream, page, state->name);
    else if (key == 'V') fprintf(state->out_stream, "%s\n", argp_program_version);
    else return ARGP_ERR_UNKNOWN;
    exit(ht_stdout_status(state->name, HT_EXIT_DONE));
}

static error_t hand_on(int key, char *value, struct argp_state *state) {
    void **inputs = state->input;
    (void)value;
    if (key != ARGP_KEY_INIT) return ARGP_ERR_UNKNOWN;
    state->child_inputs[0] = inputs[0];
    state->child_inputs[1] = inputs[1];
    return 0;
}

void ht_page_parse(const struct ht_page *page, int argc, char **argv, unsigned flags, void *input) {
    static const struct argp usual = {.options = ht_page_options, .parser = parse_usual};
    const struct argp_child children[] = {{page->argp, 0, NULL, 0}, {&usual, 0, NULL, 0}, {0}};
    const struct argp whole = {.parser = hand_on, .args_doc = page->argp->args_doc, .children = children};
    const void *inputs[] = {input, page};
    // The usual options are ours, so that they read alike in C and in Python.
    argp_parse(&whole, argc, argv, flags | ARGP_NO_HELP, NULL, inputs);
}
