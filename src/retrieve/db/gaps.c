/* gaps.c -- `PRAGMA secure_delete` overwrites a row that is deleted. But when SQLite moves rows between pages to
 * balance them, the page that they leave keeps their bytes in the gap before its cells, where no later deletion
 * reaches them. So pages are written without them:
 *
 *   | header | where the cells are | gap: zeros | cells |
 *
 * Source: sqlite.org/fileformat.html, sections 1.6 and 1.8 */
#include "retrieve/db/gaps.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "retrieve/db/db.h"

enum {
    /* A page that continues a row, or lists free ones, begins with the number of a page. Of so many (137 GB, of 4 KiB
     * each), the first byte is less than 2, the least that a page of a tree begins with. */
    MOST_PAGES = (2 << 24) - 1,
    FILE_HEADER = 100, /* of the first page */
    PENDING_BYTE = 1 << 30,
    MAP_ENTRY = 5, /* of a page that says what others are for (auto_vacuum) */
};

static int get16(const unsigned char *p)
{
    return p[0] << 8 | p[1];
}

/* is_map -- of the pages, numbered from 1, those that say what the following ones are for. */
static bool is_map(int64_t page, int page_bytes)
{
    const int64_t every = page_bytes / MAP_ENTRY + 1, pending = PENDING_BYTE / page_bytes + 1;
    return (page >= 2 && (page - 2) % every == 0) || (page == pending + 1 && (page - 3) % every == 0);
}

/* gap_of -- [*from, *to) of a page of a tree; false: it is none, or not as it should be. */
static bool gap_of(const unsigned char *page, int page_bytes, int at, int *from, int *to)
{
    const unsigned char *h = page + at;
    const bool is_leaf = h[0] == 10 || h[0] == 13, is_inner = h[0] == 2 || h[0] == 5;
    const int n_cells = get16(h + 3), content = get16(h + 5), cells = at + (is_leaf ? 8 : 12);
    if (!is_leaf && !is_inner) return false;
    *from = cells + 2 * n_cells;
    *to = content ? content : 1 << 16;
    if (*from > *to || *to > page_bytes) return false;
    for (int i = 0; i < n_cells; i++) {
        const int cell = get16(page + cells + 2 * i);
        if (cell < *to || cell >= page_bytes) return false;
    }
    return true;
}

static int write_page(sqlite3_file *f, const void *data, int n, sqlite3_int64 at)
{
    sp_gaps *g = (sp_gaps *)(uintptr_t)f->pMethods;
    const int64_t page = at / g->page_bytes + 1;
    int from, to;
    if (n != g->page_bytes || at % n || is_map(page, n) ||
        !gap_of(data, n, page == 1 ? FILE_HEADER : 0, &from, &to))
        return g->file->xWrite(f, data, n, at);
    memcpy(g->page, data, (size_t)n);
    memset(g->page + from, 0, (size_t)(to - from));
    return g->file->xWrite(f, g->page, n, at);
}

sp_err sp_gaps_begin(sp_gaps *g, sqlite3 *db, const char *path)
{
    sqlite3_file *f = NULL;
    int64_t page_bytes, most;
    char sql[64];
    sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, &f);
    if (!f || !f->pMethods) return SP_OK;
    SP_TRY(sp_db_number(db, path, "PRAGMA page_size", &page_bytes));
    snprintf(sql, sizeof sql, "PRAGMA max_page_count = %d", MOST_PAGES);
    SP_TRY(sp_db_number(db, path, sql, &most));
    if (most > MOST_PAGES) return SP_OK; /* a file that is larger already */
    g->page = sp_alloc((size_t)page_bytes, 1);
    if (!g->page) return sp_fail_nomem("a page of registered documents");
    g->page_bytes = (int)page_bytes;
    g->file = f->pMethods;
    g->methods = *f->pMethods;
    g->methods.xWrite = write_page;
    f->pMethods = &g->methods;
    return SP_OK;
}

void sp_gaps_end(sp_gaps *g)
{
    sp_free(g->page);
}
