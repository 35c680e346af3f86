/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exchanges that are under way at once do not disturb each other: in any order of start, finish and release,
 * the same on all ranks or not, in one communicator or in several.
 */
// RUN: np=1,2,3,4,6
#include "mpi/exchange_cases.h"

#include "comm/mpi/mpi_impl.h"

enum {
    UNITS = 5,
    BUCKET = 700
};

/* A unit with both its exchanges: a reduction (in even units) or a gather. */
typedef struct unit {
    bool is_reduce;
    uint64_t seed;
    int round;
    int64_t border[MAX_RANKS + 1];
    size_t source_at[MAX_RANKS];
    cero_comm_buffer *buffer; /* contributions; or the gathered range, parts in place */
    float *sum;
    void *landing;
    cero_exchange *x;
    char state; /* ' ' idle, 's' started, 'f' finished */
} unit;

static int64_t own_numel(const cases_world *w, const unit *u)
{
    return u->border[w->rank + 1] - u->border[w->rank];
}

static void open_reduce(cases_world *w, unit *u)
{
    cero_reduce_params params = {.name = "unit",
                                 .device = w->device,
                                 .dtype = CERO_DTYPE_F32,
                                 .border = u->border,
                                 .source = u->buffer,
                                 .bucket = BUCKET};

    u->sum = cero_new((size_t)own_numel(w, u) + 1, sizeof(float));
    u->landing = cero_new(1, cero_reduce_landing_bytes(w->comm, &params) + 1);
    params.sum = u->sum;
    params.landing = u->landing;
    assert_ok(cero_reduce_create(w->comm, &params, &u->x));
}

static void open_unit(cases_world *w, unit *u, uint64_t seed)
{
    *u = (unit){.is_reduce = seed % 2 == 0, .seed = seed, .state = ' '};
    int64_t numel = cases_borders(seed, w->size, u->border);
    assert_ok(cero_comm_buffer_create(
        w->comm,
        &(cero_comm_buffer_params){
            .mem = w->mem, .nbytes = (size_t)numel * sizeof(float), .what = "a unit"},
        &u->buffer));
    for (int r = 0; r < w->size; r++) {
        u->source_at[r] = (size_t)u->border[r] * sizeof(float);
    }
    if (u->is_reduce) {
        open_reduce(w, u);
        return;
    }
    assert_ok(cero_gather_create(w->comm,
                                 &(cero_gather_params){.name = "unit",
                                                       .device = w->device,
                                                       .element_size = sizeof(float),
                                                       .border = u->border,
                                                       .source = u->buffer,
                                                       .source_at = u->source_at,
                                                       .dest = u->buffer},
                                 &u->x));
}

static void close_unit(unit *u)
{
    cero_exchange_destroy(&u->x);
    cero_comm_buffer_destroy(&u->buffer);
    cero_delete(u->sum);
    cero_delete(u->landing);
}

static void start(const cases_world *w, unit *u)
{
    float *data = cero_comm_buffer_data(u->buffer);
    int64_t begin = u->is_reduce ? 0 : u->border[w->rank];
    int64_t n = u->is_reduce ? u->border[w->size] : own_numel(w, u);

    u->round = (u->round + 1) % 8;
    cases_values(w->device, u->seed, w->rank, u->round, CERO_DTYPE_F32, begin, n, data + begin);
    assert_ok(cero_exchange_start(u->x, true));
    u->state = 's';
}

/* The sums, or the range, of the round; n elements from `begin` on. */
static void check_values(const cases_world *w, const unit *u, int first, int last, int64_t begin,
                         int64_t n, const float *found)
{
    float *sum = cero_new((size_t)n + 1, sizeof(float));
    float *x = cero_new((size_t)n + 1, sizeof(float));

    for (int r = first; r <= last; r++) {
        cases_values(w->device, u->seed, r, u->round, CERO_DTYPE_F32, begin, n, x);
        for (int64_t i = 0; i < n; i++) {
            sum[i] = r == first ? x[i] : sum[i] + x[i];
        }
    }
    assert_memory_equal(sum, found, (size_t)n * sizeof(float));
    cero_delete(sum);
    cero_delete(x);
}

static void finish(const cases_world *w, unit *u)
{
    const float *data = cero_comm_buffer_data(u->buffer);

    assert_ok(cero_exchange_finish(u->x));
    u->state = 'f';
    if (u->is_reduce) {
        check_values(w, u, 0, w->size - 1, u->border[w->rank], own_numel(w, u), u->sum);
        return;
    }
    for (int r = 0; r < w->size; r++) {
        check_values(w, u, r, r, u->border[r], u->border[r + 1] - u->border[r],
                     data + u->border[r]);
    }
}

static void release(const cases_world *w, unit *u)
{
    assert_ok(cero_exchange_release(u->x));
    // What peers might still read would now be wrong.
    memset(cero_comm_buffer_data(u->buffer), 0xff, (size_t)u->border[w->size] * sizeof(float));
    u->state = ' ';
}

static void step(const cases_world *w, unit *u)
{
    if (u->state == ' ') {
        start(w, u);
    } else if (u->state == 's') {
        finish(w, u);
    } else {
        release(w, u);
    }
}

/* Starts agree on all ranks; with is_own_order each finishes and releases in an order of its own. */
static void run_interleaved(cases_world *w, bool is_own_order)
{
    unit units[UNITS];

    for (int k = 0; k < UNITS; k++) {
        open_unit(w, &units[k], 30 + (uint64_t)k);
    }
    for (uint64_t turn = 0; turn < 60; turn++) {
        // Some start; then some go on that were started, perhaps not all to the end.
        for (int k = 0; k < UNITS; k++) {
            if (units[k].state == ' ' && cases_draw(turn, (uint64_t)k) % 3 == 0) {
                start(w, &units[k]);
            }
        }
        uint64_t order = is_own_order ? 50 + (uint64_t)w->rank : 50;
        for (uint64_t i = 0; i < 2 * UNITS; i++) {
            unit *u = &units[cases_draw(turn, 100 * order + i) % UNITS];
            if (u->state != ' ' && !is_own_order) {
                step(w, u);
            } else if (u->state == 's') {
                finish(w, u);
            }
        }
        // Which are idle again must not differ, or starts would.
        for (int k = 0; k < UNITS && is_own_order; k++) {
            int at = (k + w->rank) % UNITS;
            while (units[at].state != ' ' && cases_draw(turn, 10 + (uint64_t)at) % 2 == 0) {
                step(w, &units[at]);
            }
        }
    }
    for (int k = 0; k < UNITS; k++) {
        while (units[k].state != ' ') {
            step(w, &units[k]);
        }
        close_unit(&units[k]);
    }
}

static void test_interleaved(void **state)
{
    CERO_UNUSED(state);
    for (size_t k = 0; k < CERO_COUNT_OF(cases_shapes); k++) {
        cases_world w;
        cases_open(&w, &cases_shapes[k]);
        run_interleaved(&w, false);
        run_interleaved(&w, true);
        cases_close(&w);
    }
}

/* The world and one half of it, as two engines: each has its own numbers, flags and messages. */
static void test_two_communicators(void **state)
{
    CERO_UNUSED(state);
    for (size_t k = 0; k < CERO_COUNT_OF(cases_shapes); k++) {
        cases_world w;
        unit whole[2];
        unit half[2];
        cases_open(&w, &cases_shapes[k]);
        cases_world h = w;
        assert_ok(cero_comm_split(w.comm, w.rank % 2, w.size - w.rank, &h.comm));
        h.rank = cero_comm_rank(h.comm);
        h.size = cero_comm_size(h.comm);
        for (int i = 0; i < 2; i++) {
            open_unit(&w, &whole[i], 40 + (uint64_t)i);
            open_unit(&h, &half[i], 50 + (uint64_t)i + 2 * (uint64_t)(w.rank % 2));
        }
        for (uint64_t turn = 0; turn < 40; turn++) {
            for (uint64_t i = 0; i < 4; i++) {
                uint32_t draw = cases_draw(turn, i) % 4;
                if (draw < 2) {
                    step(&w, &whole[draw]);
                } else {
                    step(&h, &half[draw - 2]);
                }
            }
        }
        for (int i = 0; i < 2; i++) {
            while (whole[i].state != ' ') {
                step(&w, &whole[i]);
            }
            while (half[i].state != ' ') {
                step(&h, &half[i]);
            }
            close_unit(&whole[i]);
            close_unit(&half[i]);
        }
        cero_comm_destroy(&h.comm);
        cases_close(&w);
    }
}

/* More exchanges under way than there are flags are refused, not mixed up; what is under way goes on. */
static void test_too_many(void **state)
{
    enum {
        FLAGS = CERO_MPI_SLOTS
    };
    static unit units[FLAGS + 1];
    cases_world w;

    CERO_UNUSED(state);
    cases_open(&w, &cases_shapes[0]);
    if (w.size > 1) {
        for (int k = 0; k <= FLAGS; k++) {
            open_unit(&w, &units[k], 60 + (uint64_t)k);
        }
        for (int k = 0; k < FLAGS; k++) {
            start(&w, &units[k]);
        }
        // Past the call that would end the communicator, as any error of a start does.
        assert_fails(cero_mpi_exchange_start(units[FLAGS].x, true), CERO_ERR_INTERNAL,
                     "not released");
        for (int k = 0; k < FLAGS; k++) {
            finish(&w, &units[FLAGS - 1 - k]);
        }
        for (int k = 0; k < FLAGS; k++) {
            release(&w, &units[k]);
        }
        for (int k = 0; k <= FLAGS; k++) {
            close_unit(&units[k]);
        }
    }
    cases_close(&w);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_interleaved),
        cmocka_unit_test(test_two_communicators),
        cmocka_unit_test(test_too_many),
    };

    return cases_run(argc, argv, tests, CERO_COUNT_OF(tests));
}
