#include "cli/show.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utf8proc.h>

#include "cli/text.h"

#define REPLACEMENT "\xEF\xBF\xBD"
#define ELLIPSIS    "\xE2\x80\xA6"

/* is_obeyed -- control characters, and format characters that change the direction of text. The
 * joiners that Persian and emoji need stay. */
static int is_obeyed(utf8proc_int32_t c)
{
    utf8proc_category_t category = utf8proc_category(c);
    if (category == UTF8PROC_CATEGORY_CF) return c != 0x200C && c != 0x200D && c != 0xAD;
    return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_ZL ||
           category == UTF8PROC_CATEGORY_ZP;
}

/* take -- the next character: its bytes in the text, and what is printed for it. */
static size_t take(const char *s, size_t n, const char **shown, size_t *n_shown, int *width)
{
    utf8proc_int32_t c;
    utf8proc_ssize_t length =
        utf8proc_iterate((const utf8proc_uint8_t *)s, (utf8proc_ssize_t)n, &c);
    *shown = s;
    *n_shown = length > 0 ? (size_t)length : 1;
    *width = length > 0 ? utf8proc_charwidth(c) : 1;
    size_t taken = *n_shown;
    if (length <= 0 || is_obeyed(c)) {
        *shown = REPLACEMENT;
        *n_shown = strlen(REPLACEMENT);
        *width = 1;
    }
    return taken;
}

void show_text(FILE *to, const char *s, size_t n)
{
    for (size_t at = 0; at < n;) {
        const char *shown;
        size_t n_shown;
        int width;
        if (s[at] == '\n' || s[at] == '\t') {
            fputc(s[at++], to);
            continue;
        }
        at += take(s + at, n - at, &shown, &n_shown, &width);
        fwrite(shown, 1, n_shown, to);
    }
}

static size_t take_of_line(const char *s, size_t n, const char **shown, size_t *n_shown, int *width)
{
    if (!strchr("\n\r\t", *s)) return take(s, n, shown, n_shown, width);
    *shown = " ";
    *n_shown = 1;
    *width = 1;
    return 1;
}

int show_columns(const char *s)
{
    int columns = 0;
    for (size_t n = strlen(s), at = 0; at < n;) {
        const char *shown;
        size_t n_shown;
        int width;
        at += take_of_line(s + at, n - at, &shown, &n_shown, &width);
        columns += width;
    }
    return columns;
}

void show_line(FILE *to, const char *s, int width)
{
    int all = show_columns(s), used = 0;
    int room = width > 0 && all > width ? width - 1 : all; /* the ellipsis takes one */
    for (size_t n = strlen(s), at = 0; at < n;) {
        const char *shown;
        size_t n_shown;
        int columns;
        at += take_of_line(s + at, n - at, &shown, &n_shown, &columns);
        if (used + columns > room) break;
        fwrite(shown, 1, n_shown, to);
        used += columns;
    }
    if (room < all) {
        fputs(ELLIPSIS, to);
        used++;
    }
    for (; used < width; used++) fputc(' ', to);
}

char *show_copy(const char *s, int width)
{
    char *copy = NULL;
    size_t n;
    FILE *to = cli_text_open(&copy, &n);
    if (!to) return NULL;
    show_line(to, s, width);
    fclose(to);
    return copy;
}

static bool has_colour(FILE *to)
{
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    if (no_color && *no_color) return false;
    return isatty(fileno(to)) && term && strcmp(term, "dumb") != 0;
}

const char *show_dim(FILE *to)
{
    return has_colour(to) ? "\033[2m" : "";
}

const char *show_plain(FILE *to)
{
    return has_colour(to) ? "\033[0m" : "";
}

char *show_size(char *text, int64_t bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double v = (double)bytes;
    int unit = 0;
    while (v >= 1024 && unit < 4) v /= 1024, unit++;
    snprintf(text, SHOW_SIZE, unit && v < 100 ? "%.1f %s" : "%.0f %s", v, units[unit]);
    return text;
}
