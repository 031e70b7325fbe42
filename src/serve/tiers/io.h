/* io.h -- one thread for everything that waits for the store.
 *
 *   engine thread   submit ---> waiting ---> I/O thread: run ---> finished ---> poll, wait: done
 *
 * Jobs run one after another: urgent ones (a request waits for them) before the others. `run` is
 * called on the I/O thread and may only touch the job, the store and the blocks that the job was
 * given; `done` is called on the engine thread and gives the job up. */
#ifndef SP_SERVE_IO_H
#define SP_SERVE_IO_H

#include <stdatomic.h>

#include "store/disk.h"

typedef struct sp_io sp_io;
typedef struct sp_io_job sp_io_job;

struct sp_io_job {
    void (*run)(sp_io_job *job, sp_disk *disk);
    void (*done)(sp_io_job *job);
    bool urgent;
    sp_err err;               /* of run; the engine thread reads it in done */
    char detail[256];         /* its explanation */
    _Atomic int64_t began_us; /* sp_clock_us when its run was called; 0: it waits */
    sp_io_job *next;
};

/* sp_io_open -- starts the thread; takes ownership of the store when it succeeds. Errors:
 * SP_E_NOMEM. */
sp_err sp_io_open(sp_disk *disk, sp_io **out) SP_MUST_CHECK;
/* sp_io_close -- finishes all jobs, then closes the store. NULL is fine. */
void sp_io_close(sp_io *io);

/* -- engine thread -------------------------------------------------------------------------- */

void sp_io_submit(sp_io *io, sp_io_job *job);
/* sp_io_begin -- a job that another thread runs is under way: its `run` is not called, and its `done`
 * after sp_io_end. */
void sp_io_begin(sp_io *io, sp_io_job *job);
/* sp_io_end -- it has finished; once for each begin, before or after it. Thread: any. */
void sp_io_end(sp_io *io, sp_io_job *job);
/* sp_io_withdraw -- takes a job back that waits: neither `run` nor `done` is called; false: it has begun. */
bool sp_io_withdraw(sp_io *io, sp_io_job *job);
/* sp_io_poll -- calls `done` of jobs that have finished. */
void sp_io_poll(sp_io *io);
/* sp_io_wait -- waits until a job has finished, and polls; false when none is under way. */
bool sp_io_wait(sp_io *io);
/* sp_io_wait_for -- waits no longer than `us`, and ends when sp_io_poke was called since the last wait. */
void sp_io_wait_for(sp_io *io, int64_t us);
/* sp_io_poke -- something else has happened that the engine thread waits for. Thread: any. */
void sp_io_poke(sp_io *io);
/* sp_io_busy -- jobs are under way. */
bool sp_io_busy(const sp_io *io);
/* sp_io_drain -- waits for all jobs. */
void sp_io_drain(sp_io *io);
/* sp_io_fail_as -- records the error of a job for this thread, and returns it. */
sp_err sp_io_fail_as(const sp_io_job *job);

/* sp_io_call -- runs a function on the I/O thread, and returns what it returns. Errors: SP_E_IO, and fn is not called:
 * other jobs kept the thread busy for patience_us. */
typedef sp_err sp_io_fn(sp_disk *disk, void *arg);
sp_err sp_io_call(sp_io *io, sp_io_fn *fn, void *arg, int64_t patience_us) SP_MUST_CHECK;

#endif
