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

/* What the queries of trees see. Lengths of the spans are set before. */
typedef struct sp_meter_trees {
    sp_span *spans;   /* [n_spans] */
    sp_sight *sights; /* [n_spans] */
    uint16_t *lists;  /* [n_spans, 4] */
    int32_t *pos;     /* [rows] */
    uint16_t *see;    /* [rows] */
} sp_meter_trees;

/* sp_meter_tree_spans -- n_spans of an operation with trees. */
int sp_meter_tree_spans(const sp_meter_op *op);
/* sp_meter_lay_trees -- returns the number of pairs of a query and a key that it sees. */
double sp_meter_lay_trees(const sp_meter_op *op, sp_meter_trees *t);

#endif
