/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one file that includes dnnl.h. Version 2 keeps memory descriptors by value and describes an
 * operation before its primitive descriptor; version 3 has handles and one call. The small functions
 * under `#if DNNL_VERSION_MAJOR >= 3` hold all of the difference.
 */
#include "device/cpu/dnnl_shim.h"

#include <dnnl.h>
#include <dnnl_debug.h>

#include <stdio.h>

#define CERO_TRY_DNNL(call)                             \
    do {                                                \
        dnnl_status_t try_dnnl_ = (call);               \
        if (CERO_UNLIKELY(try_dnnl_ != dnnl_success)) { \
            return dnnl_fail(try_dnnl_, #call);         \
        }                                               \
    } while (0)

#define CERO_TRY_DNNL_GOTO(call, label)                 \
    do {                                                \
        dnnl_status_t try_dnnl_ = (call);               \
        if (CERO_UNLIKELY(try_dnnl_ != dnnl_success)) { \
            st = dnnl_fail(try_dnnl_, #call);           \
            goto label;                                 \
        }                                               \
    } while (0)

struct cero_dnnl {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
};

enum {
    ARG_A,
    ARG_B,
    ARG_C,
    ARG_SCRATCH,
    ARG_BIAS, /* last: absent in most products */
    ARG_COUNT
};

static const int arg_names[ARG_COUNT] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST,
                                         DNNL_ARG_SCRATCHPAD, DNNL_ARG_BIAS};

struct cero_dnnl_matmul {
    dnnl_primitive_desc_t desc;
    dnnl_primitive_t primitive; /* NULL when described only */
    dnnl_exec_arg_t args[ARG_COUNT];
    int arg_count;
    size_t scratch;
};

static cero_status dnnl_fail(dnnl_status_t status, const char *call)
{
    cero_status st = status == dnnl_out_of_memory   ? CERO_ERR_NOMEM
                     : status == dnnl_unimplemented ? CERO_ERR_UNSUPPORTED
                                                    : CERO_ERR_INTERNAL;
    return CERO_FAIL(st, "oneDNN says %s to %s", dnnl_status2str(status), call);
}

const char *cero_dnnl_version(void)
{
    static char text[48];
    const dnnl_version_t *v = dnnl_version();

    // Same bytes whoever writes them first.
    (void)snprintf(text, sizeof(text), "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
    return text;
}

cero_status cero_dnnl_create(cero_dnnl **out)
{
    cero_status st = CERO_OK;
    cero_dnnl *dnnl = cero_new(1, sizeof(*dnnl));

    CERO_CHECK(dnnl != NULL, CERO_ERR_NOMEM, "no memory for an engine of oneDNN");
    CERO_TRY_DNNL_GOTO(dnnl_engine_create(&dnnl->engine, dnnl_cpu, 0), fail);
    CERO_TRY_DNNL_GOTO(dnnl_stream_create(&dnnl->stream, dnnl->engine, dnnl_stream_in_order), fail);
    *out = dnnl;
    return CERO_OK;

fail:
    cero_dnnl_destroy(&dnnl);
    return st;
}

void cero_dnnl_destroy(cero_dnnl **dnnl)
{
    if (dnnl == NULL || *dnnl == NULL) {
        return;
    }
    if ((*dnnl)->stream != NULL) {
        (void)dnnl_stream_destroy((*dnnl)->stream);
    }
    if ((*dnnl)->engine != NULL) {
        (void)dnnl_engine_destroy((*dnnl)->engine);
    }
    cero_delete(*dnnl);
    *dnnl = NULL;
}

/* Shape, strides and type of one operand. */
typedef struct operand {
    dnnl_dims_t dims;
    dnnl_dims_t strides;
    dnnl_data_type_t type;
} operand;

static dnnl_data_type_t data_type(cero_dtype dtype)
{
    return dtype == CERO_DTYPE_BF16 ? dnnl_bf16 : dtype == CERO_DTYPE_F16 ? dnnl_f16 : dnnl_f32;
}

static operand operand_make(int64_t rows, int64_t cols, int64_t ld, bool is_transposed,
                            cero_dtype dtype)
{
    return (operand){.dims = {rows, cols},
                     .strides = {is_transposed ? 1 : ld, is_transposed ? ld : 1},
                     .type = data_type(dtype)};
}

#if DNNL_VERSION_MAJOR >= 3

typedef dnnl_memory_desc_t shim_md;

static dnnl_status_t md_create(shim_md *md, const operand *x)
{
    return dnnl_memory_desc_create_with_strides(md, 2, x->dims, x->type, x->strides);
}

static void md_destroy(shim_md *md)
{
    if (*md != NULL) {
        (void)dnnl_memory_desc_destroy(*md);
    }
}

static dnnl_status_t append_sum(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1.0f, 0, dnnl_data_type_undef);
}

static dnnl_status_t desc_create(dnnl_primitive_desc_t *desc, dnnl_engine_t engine,
                                 const shim_md md[ARG_COUNT], bool has_bias,
                                 dnnl_primitive_attr_t attr)
{
    return dnnl_matmul_primitive_desc_create(desc, engine, md[ARG_A], md[ARG_B],
                                             has_bias ? md[ARG_BIAS] : NULL, md[ARG_C], attr);
}

static dnnl_status_t memory_create(dnnl_memory_t *memory, dnnl_primitive_desc_t desc, int arg,
                                   dnnl_engine_t engine)
{
    const_dnnl_memory_desc_t md =
        dnnl_primitive_desc_query_md(desc, dnnl_query_exec_arg_md, arg_names[arg]);
    return dnnl_memory_create(memory, md, engine, DNNL_MEMORY_NONE);
}

static size_t scratch_size(dnnl_primitive_desc_t desc)
{
    const_dnnl_memory_desc_t md = dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
    return md == NULL ? 0 : dnnl_memory_desc_get_size(md);
}

#else

typedef dnnl_memory_desc_t shim_md;

static dnnl_status_t md_create(shim_md *md, const operand *x)
{
    return dnnl_memory_desc_init_by_strides(md, 2, x->dims, x->type, x->strides);
}

static void md_destroy(shim_md *md)
{
    CERO_UNUSED(md);
}

static dnnl_status_t append_sum(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1.0f);
}

static dnnl_status_t desc_create(dnnl_primitive_desc_t *desc, dnnl_engine_t engine,
                                 const shim_md md[ARG_COUNT], bool has_bias,
                                 dnnl_primitive_attr_t attr)
{
    dnnl_matmul_desc_t operation;
    dnnl_status_t st = dnnl_matmul_desc_init(&operation, &md[ARG_A], &md[ARG_B],
                                             has_bias ? &md[ARG_BIAS] : NULL, &md[ARG_C]);

    return st != dnnl_success ? st
                              : dnnl_primitive_desc_create(desc, &operation, attr, engine, NULL);
}

static dnnl_status_t memory_create(dnnl_memory_t *memory, dnnl_primitive_desc_t desc, int arg,
                                   dnnl_engine_t engine)
{
    const dnnl_memory_desc_t *md =
        dnnl_primitive_desc_query_md(desc, dnnl_query_exec_arg_md, arg_names[arg]);
    return dnnl_memory_create(memory, md, engine, DNNL_MEMORY_NONE);
}

static size_t scratch_size(dnnl_primitive_desc_t desc)
{
    const dnnl_memory_desc_t *md = dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
    return md == NULL ? 0 : dnnl_memory_desc_get_size(md);
}

#endif

/* Scratch of the caller's, and C added to when asked. */
static cero_status attr_create(bool is_adding, dnnl_primitive_attr_t *out)
{
    cero_status st = CERO_OK;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_post_ops_t ops = NULL;

    CERO_TRY_DNNL_GOTO(dnnl_primitive_attr_create(&attr), out);
    CERO_TRY_DNNL_GOTO(dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user),
                       out);
    if (is_adding) {
        CERO_TRY_DNNL_GOTO(dnnl_post_ops_create(&ops), out);
        CERO_TRY_DNNL_GOTO(append_sum(ops), out);
        CERO_TRY_DNNL_GOTO(dnnl_primitive_attr_set_post_ops(attr, ops), out);
    }
    *out = attr;
    attr = NULL;

out:
    if (ops != NULL) {
        (void)dnnl_post_ops_destroy(ops);
    }
    if (attr != NULL) {
        (void)dnnl_primitive_attr_destroy(attr);
    }
    return st;
}

static cero_status describe(cero_dnnl *dnnl, const cero_matmul_desc *d, cero_dnnl_matmul *matmul)
{
    operand operands[ARG_COUNT] = {
        [ARG_A] = operand_make(d->M, d->K, d->lda, d->is_a_transposed, d->ab_dtype),
        [ARG_B] = operand_make(d->K, d->N, d->ldb, d->is_b_transposed, d->ab_dtype),
        [ARG_C] = operand_make(d->M, d->N, d->ldc, false, d->c_dtype),
        [ARG_SCRATCH] = operand_make(1, 1, 1, false, CERO_DTYPE_F32), // Not used: the library's.
        [ARG_BIAS] = operand_make(1, d->N, d->N, false, d->ab_dtype),
    };
    shim_md md[ARG_COUNT] = {0};
    dnnl_primitive_attr_t attr = NULL;
    cero_status st = CERO_OK;

    CERO_TRY_GOTO(attr_create(d->is_adding, &attr), out);
    for (int i = 0; i < ARG_COUNT; i++) {
        CERO_TRY_DNNL_GOTO(md_create(&md[i], &operands[i]), out);
    }
    CERO_TRY_DNNL_GOTO(desc_create(&matmul->desc, dnnl->engine, md, d->has_bias, attr), out);
    matmul->scratch = scratch_size(matmul->desc);

out:
    for (int i = 0; i < ARG_COUNT; i++) {
        md_destroy(&md[i]);
    }
    if (attr != NULL) {
        (void)dnnl_primitive_attr_destroy(attr);
    }
    return st;
}

static cero_status compile(cero_dnnl *dnnl, bool has_bias, cero_dnnl_matmul *matmul)
{
    CERO_TRY_DNNL(dnnl_primitive_create(&matmul->primitive, matmul->desc));
    matmul->arg_count = has_bias ? ARG_COUNT : ARG_COUNT - 1;
    for (int i = 0; i < matmul->arg_count; i++) {
        matmul->args[i].arg = arg_names[i];
        CERO_TRY_DNNL(memory_create(&matmul->args[i].memory, matmul->desc, i, dnnl->engine));
    }
    return CERO_OK;
}

cero_status cero_dnnl_matmul_create(cero_dnnl *dnnl, const cero_matmul_desc *desc, bool is_compiled,
                                    cero_dnnl_matmul **out)
{
    cero_status st = CERO_OK;
    cero_dnnl_matmul *matmul = cero_new(1, sizeof(*matmul));

    CERO_CHECK(matmul != NULL, CERO_ERR_NOMEM, "no memory for a product");
    CERO_TRY_GOTO(describe(dnnl, desc, matmul), fail);
    if (is_compiled) {
        CERO_TRY_GOTO(compile(dnnl, desc->has_bias, matmul), fail);
    }
    *out = matmul;
    return CERO_OK;

fail:
    cero_dnnl_matmul_destroy(&matmul);
    return st;
}

void cero_dnnl_matmul_destroy(cero_dnnl_matmul **matmul)
{
    if (matmul == NULL || *matmul == NULL) {
        return;
    }
    for (int i = 0; i < ARG_COUNT; i++) {
        if ((*matmul)->args[i].memory != NULL) {
            (void)dnnl_memory_destroy((*matmul)->args[i].memory);
        }
    }
    if ((*matmul)->primitive != NULL) {
        (void)dnnl_primitive_destroy((*matmul)->primitive);
    }
    if ((*matmul)->desc != NULL) {
        (void)dnnl_primitive_desc_destroy((*matmul)->desc);
    }
    cero_delete(*matmul);
    *matmul = NULL;
}

size_t cero_dnnl_matmul_scratch(const cero_dnnl_matmul *matmul)
{
    return matmul->scratch;
}

const char *cero_dnnl_matmul_implementation(const cero_dnnl_matmul *matmul)
{
    const char *name = NULL;
    dnnl_status_t st =
        dnnl_primitive_desc_query(matmul->desc, dnnl_query_impl_info_str, 0, (void *)&name);

    return st == dnnl_success && name != NULL ? name : "unknown";
}

cero_status cero_dnnl_matmul_run(cero_dnnl *dnnl, cero_dnnl_matmul *matmul, const void *a,
                                 const void *b, const void *bias, void *c, void *scratch)
{
    // The library's handles are not const; the primitive writes to C and to the scratch alone.
    void *handles[ARG_COUNT] = {
        [ARG_A] = (void *)(uintptr_t)a, [ARG_B] = (void *)(uintptr_t)b,       [ARG_C] = c,
        [ARG_SCRATCH] = scratch,        [ARG_BIAS] = (void *)(uintptr_t)bias,
    };

    for (int i = 0; i < matmul->arg_count; i++) {
        CERO_TRY_DNNL(dnnl_memory_set_data_handle(matmul->args[i].memory, handles[i]));
    }
    CERO_TRY_DNNL(
        dnnl_primitive_execute(matmul->primitive, dnnl->stream, matmul->arg_count, matmul->args));
    CERO_TRY_DNNL(dnnl_stream_wait(dnnl->stream));
    return CERO_OK;
}
