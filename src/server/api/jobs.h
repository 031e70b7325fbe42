/* jobs.h -- the jobs in progress: GET /v1/requests. Thread: any. */
#ifndef SP_SERVER_API_JOBS_H
#define SP_SERVER_API_JOBS_H

#include "server/api/job.h"

/* srv_jobs_enter -- a new job. srv_jobs_leave -- before its requests are destroyed. */
void srv_jobs_enter(srv_job *j);
void srv_jobs_leave(srv_job *j);

#endif
