/* task.h -- of the process of a test. */
#ifndef SP_TESTS_TASK_H
#define SP_TESTS_TASK_H

#include <dirent.h>

#include "support/check.h"

/* task_n_threads -- and the two entries that every folder has; to be compared. */
static inline int task_n_threads(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/task");
    assert_non_null(d);
    while (readdir(d)) n++;
    closedir(d);
    return n;
}

#endif
