/* meter_int.h -- what a meter owns. */
#ifndef SP_LAB_METER_INT_H
#define SP_LAB_METER_INT_H

#include "compute/kernels.h"
#include "lab/meter.h"

/* Contents of the field: copies of weights (block_bytes 0), or of keys and values. */
typedef struct sp_meter_fill {
    sp_dtype type;
    size_t stride, block_bytes; /* stride 0: nothing */
} sp_meter_fill;

struct sp_meter {
    sp_team *team;
    const sp_ops *ops;
    uint8_t *field; /* [field_bytes] pages: the operands of measured operations */
    size_t field_bytes;
    sp_meter_fill filled;
};

/* sp_meter_field_grow -- at least n_bytes; what was in the field is lost. */
sp_err sp_meter_field_grow(sp_meter *m, size_t n_bytes) SP_MUST_CHECK;

#endif
