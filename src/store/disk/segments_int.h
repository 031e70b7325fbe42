/* segments_int.h -- the segment files of the disk tier, and the live pages of each. Thread: one owner, except for the
 * descriptor of a pinned file. */
#ifndef SP_STORE_DISK_SEGMENTS_INT_H
#define SP_STORE_DISK_SEGMENTS_INT_H

#include <pthread.h>

#include "store/table.h"

typedef struct sp_segment_file {
    uint32_t number;
    int fd;         /* -1: closed */
    int pins;       /* reads and writes in flight */
    bool gone;      /* deleted: freed by the last unpin */
    bool stuck;     /* contains no copy, and could not be deleted */
    bool tail;      /* the file may have bytes of a copy after `end` */
    uint32_t first; /* entry of the table; the others follow through `next` */
    uint64_t end;   /* pages in use */
    uint64_t live;  /* of these, pages of copies */
} sp_segment_file;

typedef struct sp_segments {
    char *folder;
    SP_VEC(sp_segment_file *) list; /* by number */
    int n_open;
} sp_segments;

enum { SP_SEGMENT_NAME_BYTES = 16 }; /* "0000002a.kv", NUL */

sp_err sp_segments_init(sp_segments *s, const char *folder) SP_MUST_CHECK;
void sp_segments_fini(sp_segments *s);
/* sp_segments_find -- NULL if there is none. */
sp_segment_file *sp_segments_find(const sp_segments *s, uint32_t number);
/* sp_segments_need -- finds the segment, or adds a closed and empty one. Errors: SP_E_NOMEM. */
sp_err sp_segments_need(sp_segments *s, uint32_t number, sp_segment_file **out) SP_MUST_CHECK;

/* System calls may take long: pin and remove release `lock`, which the caller holds, around theirs. NULL: there is no
 * lock yet. */

/* sp_segments_pin -- opens the file if necessary, with direct I/O if the file system has it. make:
 * creates it. Errors: SP_E_NOTFOUND (no such file), SP_E_IO. */
sp_err sp_segments_pin(sp_segments *s, sp_segment_file *f, bool write, bool make,
                       pthread_mutex_t *lock) SP_MUST_CHECK;
void sp_segments_unpin(sp_segments *s, sp_segment_file *f);
/* sp_segments_remove -- removes it from the list; delete: deletes the file first. Returns false, and changes nothing
 * but `stuck`, if the file cannot be deleted. Pre: it contains no copy. */
bool sp_segments_remove(sp_segments *s, sp_segment_file *f, bool delete, pthread_mutex_t *lock);

/* sp_segments_path -- the caller frees it; NULL: out of memory. */
char *sp_segments_path(const sp_segments *s, uint32_t number);
/* sp_segment_number_of -- the number in a segment's file name; 0: it is not a segment's. */
uint32_t sp_segment_number_of(const char *name);
/* sp_segments_bytes -- of all files. */
uint64_t sp_segments_bytes(const sp_segments *s);

#endif
