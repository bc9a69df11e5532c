// SPDX-License-Identifier: Apache-2.0
#include "talk.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "now.h"
#include "print.h"

const char *ht_grouped(char text[32], uint64_t number) {
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%" PRIu64, number), at = 0;
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0) text[at++] = ',';
        text[at++] = digits[i];
    }
    text[at] = 0;
    return text;
}

const char *ht_number_of(char text[HT_NUMBER_OF_BYTES], uint64_t number, const char *noun) {
    char digits[32];
    size_t length = strlen(noun);
    char last = length ? noun[length - 1] : 0;
    if (number == 1) snprintf(text, HT_NUMBER_OF_BYTES, "1 %s", noun);
    else if (last == 'y')
        snprintf(text, HT_NUMBER_OF_BYTES, "%s %.*sies", ht_grouped(digits, number), (int)length - 1, noun);
    else
        snprintf(text, HT_NUMBER_OF_BYTES, "%s %s%s", ht_grouped(digits, number), noun,
                 last == 's' ? "es" : "s");
    return text;
}

const char *ht_figures(char text[32], double number, int figures) {
    char rounded[32], digits[32];
    snprintf(rounded, sizeof rounded, "%.*e", figures - 1, number);
    double value = strtod(rounded, NULL), size = value < 0 ? -value : value;
    if (size >= 1000 && size < 1e18)
        snprintf(text, 32, "%s%.30s", value < 0 ? "-" : "", ht_grouped(digits, (uint64_t)size));
    // Fewer digits than stand before the point would get an exponent.
    else snprintf(text, 32, "%.*g", figures < 3 ? 3 : figures, value);
    return text;
}

const char *ht_bytes(char text[32], double bytes) {
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    unsigned unit = 0;
    while (bytes >= 999.5 && unit < 6) {
        bytes /= 1000;
        unit++;
    }
    snprintf(text, 32, unit == 0 ? "%.0f %s" : bytes < 9.95 ? "%.2f %s" : "%.1f %s", bytes, units[unit]);
    return text;
}

int ht_terminal_columns(FILE *out) {
    const char *text = getenv("COLUMNS");
    struct winsize size;
    int columns = text ? atoi(text) : 0;
    if (columns > 0) return columns;
    return isatty(fileno(out)) && !ioctl(fileno(out), TIOCGWINSZ, &size) ? size.ws_col : 0;
}

int ht_complain(const char *program, const struct ht_error *error) {
    ht_print(stderr, "%s: %s\n", program, error->message);
    return error->status;
}

int ht_stdout_status(const char *program, int status) {
    if (!fflush(stdout) && !ferror(stdout)) return status;
    fprintf(stderr, "%s: standard output: cannot write: %s\n", program, strerror(errno));
    return HT_EXIT_FAILED;
}

static const double redraw_s = 1.0 / 6, line_s = 60;

void ht_progress_start(struct ht_progress *progress) {
    *progress = (struct ht_progress){.started_s = ht_now_s(), .terminal = isatty(STDERR_FILENO)};
    progress->drawn_s = progress->started_s + (progress->terminal ? 1 - redraw_s : 0);
}

bool ht_progress_due(struct ht_progress *progress) {
    return ht_now_s() >= progress->drawn_s + (progress->terminal ? redraw_s : line_s);
}

void ht_progress_draw(struct ht_progress *progress, const char *format, ...) {
    // What goes on in a second line could not be erased.
    char text[256];
    size_t columns = (size_t)ht_terminal_columns(stderr);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, columns && columns < sizeof text ? columns : sizeof text, format, arguments);
    va_end(arguments);
    if (progress->terminal) {
        fputs("\r\033[K", stderr);
        ht_print(stderr, "%s", text);
    } else {
        ht_print(stderr, "heaptape: %s\n", text);
    }
    fflush(stderr);
    progress->drawn = progress->terminal;
    progress->drawn_s = ht_now_s();
}

const char *ht_progress_left(const struct ht_progress *progress, uint64_t done, uint64_t total) {
    static char text[48];
    text[0] = 0;
    if (done && done <= total)
        snprintf(text, sizeof text, ", about %.0f s left",
                 (ht_now_s() - progress->started_s) * ((double)total / (double)done - 1));
    return text;
}

void ht_progress_end(struct ht_progress *progress) {
    if (progress->drawn) fputs("\r\033[K", stderr);
    progress->drawn = false;
}
