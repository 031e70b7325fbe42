/* doctor_int.h -- `spolia doctor`: what this machine and a model will do.
 *
 *   machine.c   CPU, memory, system, other programs, the store's folder
 *   model.c     the model: whether it opens and fits
 *   speed.c     the speed to expect of it
 *   doctor.c    the command: options, the findings as text or JSON
 */
#ifndef SP_DOCTOR_INT_H
#define SP_DOCTOR_INT_H

#include <jansson.h>
#include <stdbool.h>

#include "cli/options/model_options.h"

typedef enum doctor_state {
    DOCTOR_OK,
    DOCTOR_WARNING, /* it works, but slower or with less than it could */
    DOCTOR_PROBLEM, /* something will not work */
} doctor_state;

typedef struct doctor {
    const model_options *o;
    const char *group; /* of the findings that follow */
    json_t *findings;  /* array of {group, name, state, value, advice, numbers} */
    bool has_problem;
    size_t available_bytes; /* memory; 0: unknown */
    size_t disk_bytes;      /* free where the store is; 0: unknown, or there is no store */
} doctor;

/* doctor_say -- a finding; advice may be NULL. Returns it for doctor_number. */
json_t *doctor_say(doctor *d, doctor_state state, const char *name, const char *advice,
                   const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/* doctor_number -- a figure of a finding, for scripts: "available_bytes". */
void doctor_number(json_t *finding, const char *name, double value);

void doctor_machine(doctor *d);
void doctor_store(doctor *d);
void doctor_model(doctor *d);

#endif
