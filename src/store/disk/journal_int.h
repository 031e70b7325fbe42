/* journal_int.h -- the index of the disk tier as a file: one line for every event, appended. The last line of a key
 * holds. The tables of offsets are in journal.c.
 *
 *   index      header, line, line, ...
 *   index.new  a shorter journal with the same meaning; renamed to `index` when it is complete
 *
 * Invariants
 *  I1  a line counts if its checksum is right, which also covers its position in the file. So a line
 *      truncated by a crash never counts; the next writer overwrites it.
 *  I2  lines before and after a damaged one still count: each is complete in itself.
 *  I3  lines of a failed append are cut off before the next append: a shorter one would otherwise leave some
 *      of them after it, with right checksums.
 * One process writes; any number read at the same time, and see what is appended. */
#ifndef SP_STORE_DISK_JOURNAL_INT_H
#define SP_STORE_DISK_JOURNAL_INT_H

#include "store/table.h"

typedef enum sp_journal_event {
    SP_EVENT_PUT = 1,
    SP_EVENT_DROP = 2,
    SP_EVENT_DAMAGED = 3, /* drops the copy only if it is at this place */
} sp_journal_event;

typedef struct sp_journal_line {
    sp_journal_event event;
    sp_tier_key key;
    sp_disk_place place; /* of a drop: zeros */
} sp_journal_line;

typedef struct sp_journal {
    int fd;
    char *path;
    sp_digest space;
    uint64_t n_lines;      /* up to the last line that counts */
    uint64_t n_damaged;    /* lines before it that do not */
    uint32_t next_segment; /* above the numbers of all segments when the file was created */
    bool must_cut;         /* lines of a failed append are still in the file */
    bool is_new;           /* no readable file existed, and sp_journal_rewrite has not written one yet */
    uint64_t device, inode;
} sp_journal;

typedef sp_err sp_journal_fn(void *user, const sp_journal_line *line);

/* sp_journal_open -- opens `path`; `make`: it may be missing (is_new; the caller writes it with sp_journal_rewrite
 * once it knows all lines), and a damaged one is renamed to "<path>.damaged". Calls fn for every line.
 * Errors: SP_E_NOTFOUND (without make), SP_E_FORMAT, SP_E_UNSUPPORTED, SP_E_IO, SP_E_NOMEM, or fn's. */
sp_err sp_journal_open(sp_journal *j, const char *path, const sp_digest *space, bool make,
                       sp_journal_fn *fn, void *user) SP_MUST_CHECK;
void sp_journal_close(sp_journal *j);

/* sp_journal_more -- for readers: calls fn for lines appended since the last call. *replaced: another file has this
 * name now; open it instead. */
sp_err sp_journal_more(sp_journal *j, bool *replaced, sp_journal_fn *fn, void *user) SP_MUST_CHECK;

/* sp_journal_append -- for the writer; synced unless `lazily`. Errors: SP_E_IO, SP_E_NOMEM; then none of the lines
 * counts, though after a failed sync a crash may bring them back. */
sp_err sp_journal_append(sp_journal *j, const sp_journal_line *lines, size_t n,
                         bool lazily) SP_MUST_CHECK;

/* sp_journal_rewrite -- writes a new file with these lines, which replaces the old one when it is complete: a crash
 * leaves one of the two, never an empty index beside segments, which the next start would delete. On an error the old
 * file remains. */
sp_err sp_journal_rewrite(sp_journal *j, const sp_journal_line *lines, size_t n,
                          uint32_t next_segment) SP_MUST_CHECK;

/* sp_journal_remove_damaged -- deletes "<path>.damaged" if there is one. Errors: SP_E_IO, SP_E_NOMEM. */
sp_err sp_journal_remove_damaged(const sp_journal *j) SP_MUST_CHECK;

/* sp_journal_space -- the namespace that a journal names. Errors: as open. */
sp_err sp_journal_space(const char *path, sp_digest *out) SP_MUST_CHECK;

/* sp_journal_parse -- reads line number `i` from its bytes; false: it does not count. */
enum { SP_JOURNAL_LINE_BYTES = 88 };
bool sp_journal_parse(const uint8_t *bytes, uint64_t i, sp_journal_line *out);

#endif
