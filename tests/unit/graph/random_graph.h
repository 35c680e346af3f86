/* SPDX-License-Identifier: Apache-2.0 */
/* Random graphs for property tests: the same number gives the same graph, on any device and dtype. */
#ifndef CERO_TESTS_UNIT_GRAPH_RANDOM_GRAPH_H
#define CERO_TESTS_UNIT_GRAPH_RANDOM_GRAPH_H

#include "unit/graph/graph_fixture.h"

enum {
    RANDOM_ROWS = 8, /* two sequences of four */
    RANDOM_SEQ = 4,
    RANDOM_COLS = 16,
    RANDOM_POOL = 64
};

typedef struct random_graph {
    cero_graph *graph;
    uint64_t number;
    int64_t draws;
    cero_value *pool[RANDOM_POOL]; /* values [RANDOM_ROWS, RANDOM_COLS] to go on from */
    int64_t count;
    int64_t params;
} random_graph;

static inline int64_t random_draw(random_graph *r, int64_t n)
{
    return random_below(1000 + r->number, r->draws++, n);
}

/* Recent values are likelier, so that chains appear and old ones stay alive now and then. */
static inline cero_value *random_value(random_graph *r)
{
    int64_t window = random_draw(r, 4) == 0 ? r->count : (r->count < 3 ? r->count : 3);
    return r->pool[r->count - 1 - random_draw(r, window)];
}

/* A new parameter or, one time in four, an earlier one of that shape again. */
static inline cero_value *random_param(random_graph *r, int64_t rows, int64_t cols)
{
    char name[32];
    bool is_again = r->params > 0 && random_draw(r, 4) == 0;

    if (is_again) {
        const cero_param *p = &r->graph->params[random_draw(r, r->params)];
        if (p->shape.ndim == (cols > 0 ? 2 : 1) && p->shape.dim[0] == rows &&
            (cols == 0 || p->shape.dim[1] == cols)) {
            return p->value;
        }
    }
    (void)snprintf(name, sizeof(name), "p%lld", (long long)r->params++);
    return test_param(r->graph, name, rows, cols);
}

static inline cero_value *random_op(random_graph *r)
{
    cero_graph *g = r->graph;
    cero_value *x = random_value(r);

    switch (random_draw(r, 11)) {
    case 0:
        return cero_graph_add(g, x, random_value(r));
    case 1:
        return cero_graph_apply_function(g, cero_graph_mul(g, x, random_value(r)),
                                         CERO_FUNCTION_TANH);
    case 2:
        return cero_graph_scale(g, x, 0.75);
    case 3:
        return cero_graph_apply_function(g, x, (cero_function)random_draw(r, 5));
    case 4:
        return cero_graph_swiglu(g, x, random_value(r));
    case 5:
        return cero_graph_rmsnorm(g, x, random_param(r, RANDOM_COLS, 0), 1e-5);
    case 6: {
        cero_value *gamma = random_param(r, RANDOM_COLS, 0);
        return cero_graph_layernorm(g, x, gamma, random_param(r, RANDOM_COLS, 0), 1e-5);
    }
    case 7: {
        cero_value *w = random_param(r, RANDOM_COLS, RANDOM_COLS);
        cero_value *b = random_draw(r, 2) == 0 ? NULL : random_param(r, RANDOM_COLS, 0);
        return cero_graph_scale(g, cero_graph_linear(g, x, w, b, random_draw(r, 2) == 0), 0.2);
    }
    case 8:
        return cero_graph_dropout(g, x, 0.25, RANDOM_SEQ);
    case 9:
        return cero_graph_attention(
            g, x, random_value(r), random_value(r),
            &(cero_attention_params){
                .seq_len = RANDOM_SEQ, .heads = 2, .head_dim = RANDOM_COLS / 2, .dropout = 0.1});
    default:
        return cero_graph_add_position(g, x, random_param(r, RANDOM_SEQ, RANDOM_COLS), RANDOM_SEQ);
    }
}

/* Some units of some operations; values of a unit are read by later ones. The loss is the last value. */
static inline void random_graph_build(cero_graph *graph, uint64_t number, double *sum)
{
    random_graph r = {.graph = graph, .number = number};
    char name[32];

    cero_graph_begin_unit(graph, "first", false);
    r.pool[r.count++] = random_param(&r, RANDOM_ROWS, RANDOM_COLS);
    r.pool[r.count++] = cero_graph_scale(graph, r.pool[0], 1.5);
    cero_graph_end_unit(graph);
    int64_t units = 2 + random_draw(&r, 5);
    for (int64_t u = 0; u < units; u++) {
        (void)snprintf(name, sizeof(name), "unit%lld", (long long)u);
        cero_graph_begin_unit(graph, name, random_draw(&r, 5) != 0);
        int64_t ops = 1 + random_draw(&r, 8);
        for (int64_t i = 0; i < ops && r.count < RANDOM_POOL; i++) {
            cero_value *y = random_op(&r);
            r.pool[r.count++] = y;
        }
        cero_graph_end_unit(graph);
    }
    cero_graph_begin_unit(graph, "last", false);
    cero_value *y = cero_graph_add(graph, r.pool[r.count - 1], random_value(&r));
    (void)set_weighted_loss(graph, cero_graph_add(graph, y, r.pool[1]), sum);
    cero_graph_end_unit(graph);
}

#endif
