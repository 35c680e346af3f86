/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every use of a unit that is cut lies between the end of its gather and its release, gathers go ahead within
 * the configured limits, gradients are exchanged once and in the order in which they are ready, and rooms that
 * live at the same time have memory of their own: on models and on random graphs, for a rank of a world that
 * does not exist.
 */
#include "cases.h"
#include "unit/graph/random_graph.h"

#include "graph/plan.h"
#include "models/models.h"
#include "zero/schedule.h"

enum {
    GRAPHS = 120,
    SIZE = 4, /* ranks */
    MAX_ROOMS = 256,
    MAX_UNITS = 16
};

/* A scheduled and compiled graph. */
typedef struct scheduled {
    cero_device *device;
    cero_comm *comm;
    cero_mem *mem;
    cero_train_config *config;
    const cero_train_spec *spec;
    cero_graph *graph;
    cero_zero *zero;
    cero_zero_schedule *schedule;
    cero_program *program;
    cero_plan plan;
} scheduled;

static void open_world(scheduled *s, const char *const *sets)
{
    const char *all[16] = {"train_micro_batch_size_per_gpu=2", "zero_optimization.stage=3",
                           "zero_optimization.stage3_param_persistence_threshold=0"};
    int count = 3;

    for (; *sets != NULL; sets++) {
        int at = 0;
        while (at < count && strncmp(all[at], *sets, strcspn(*sets, "=") + 1) != 0) {
            at++;
        }
        all[at] = *sets;
        count += at == count ? 1 : 0;
    }
    memset(s, 0, sizeof(*s));
    assert_ok(cero_device_create(&(cero_device_params){.name = "meta"}, &s->device));
    assert_ok(cero_comm_create_virtual(1, SIZE, NULL, &s->comm));
    assert_ok(cero_mem_create(0, &s->mem));
    assert_ok(cero_train_config_create(
        &(cero_train_config_params){.overrides = all, .override_count = count, .dp_size = SIZE},
        &s->config));
    s->spec = cero_train_config_spec(s->config);
    assert_ok(cero_graph_create(s->device, CERO_DTYPE_F32, &s->graph));
    cero_graph_set_training(s->graph, true);
}

static void schedule(scheduled *s)
{
    cero_zero_params params = {.device = s->device,
                               .mem = s->mem,
                               .comm = s->comm,
                               .graph = s->graph,
                               .spec = s->spec,
                               .micro_batches = 1};

    assert_ok(cero_graph_status(s->graph));
    assert_ok(cero_graph_autodiff(s->graph, cero_graph_find_output(s->graph, "loss")));
    assert_ok(cero_graph_recompute(s->graph, s->spec->checkpoint_units));
    assert_ok(cero_zero_create(&params, &s->zero));
    assert_ok(cero_zero_schedule_create(s->zero, s->graph, &s->schedule));
    assert_ok(cero_program_create(s->graph, &s->program));
    assert_ok(cero_plan_create(s->graph, &s->plan));
}

static void close_world(scheduled *s)
{
    cero_plan_cleanup(&s->plan);
    cero_program_destroy(&s->program);
    cero_zero_schedule_destroy(&s->schedule);
    cero_zero_destroy(&s->zero);
    cero_graph_destroy(&s->graph);
    cero_train_config_destroy(&s->config);
    cero_mem_destroy(&s->mem);
    cero_comm_destroy(&s->comm);
    cero_device_destroy(&s->device);
}

/* What happens to a room, by instruction; -1: nothing. */
typedef struct room {
    const cero_value *value;
    int64_t numel;
    int unit;      /* whose parameters lie in it; -1: gradients do */
    int64_t start; /* of the gather or the reduction */
    int64_t finish;
    int64_t release;
    int64_t first_use; /* instruction of the model that touches it */
    int64_t last_use;
    int64_t first; /* any instruction */
    int64_t last;
} room;

typedef struct rooms {
    room list[MAX_ROOMS];
    int count;
} rooms;

static room *room_of(rooms *all, const cero_value *value)
{
    for (int i = 0; i < all->count; i++) {
        if (all->list[i].value == value) {
            return &all->list[i];
        }
    }
    assert_true(all->count < MAX_ROOMS);
    room *r = &all->list[all->count++];
    *r = (room){.value = value,
                .numel = cero_shape_numel(&value->desc.shape),
                .unit = -1,
                .start = -1,
                .finish = -1,
                .release = -1,
                .first_use = -1,
                .last_use = -1,
                .first = -1,
                .last = -1};
    return r;
}

static bool is_node(const cero_node *node, const char *name)
{
    return strcmp(node->op->name, name) == 0;
}

/* Instructions of the schedule, not of the model. */
static bool is_exchange(const cero_node *node)
{
    return is_node(node, "gather_start") || is_node(node, "gather_finish") ||
           is_node(node, "gather_release") || is_node(node, "reduce_start") ||
           is_node(node, "reduce_finish") || is_node(node, "reduce_release") ||
           is_node(node, "refresh_finish");
}

static void see_exchange(rooms *all, const cero_node *node, int64_t i)
{
    if (node->input_count == 0) {
        assert_true(is_node(node, "refresh_finish"));
        return;
    }
    room *r = room_of(all, node->input[0]);
    int64_t *at = strstr(node->op->name, "_start") != NULL    ? &r->start
                  : strstr(node->op->name, "_finish") != NULL ? &r->finish
                                                              : &r->release;
    assert_int_equal(*at, -1); // each once
    *at = i;
}

/* The room in which a value's memory lies, through what was aliased; NULL: none. */
static const cero_value *home_of(const scheduled *s, const cero_value *value)
{
    const cero_value *root = s->plan.place[value->id].root;
    return root->kind == CERO_VALUE_ROOM ? root : root->home;
}

static void see_value(const scheduled *s, rooms *all, const cero_value *value, int64_t i)
{
    const cero_value *home = home_of(s, value);

    if (home == NULL) {
        return;
    }
    room *r = room_of(all, home);
    r->first = r->first < 0 ? i : r->first;
    r->last = i;
    if (!is_exchange(s->graph->nodes[i])) {
        r->first_use = r->first_use < 0 ? i : r->first_use;
        r->last_use = i;
    }
    if (value->kind == CERO_VALUE_PARAM) {
        int unit = s->graph->params[value->param].unit;
        assert_true(r->unit < 0 || r->unit == unit);
        r->unit = unit;
    }
}

static void find_rooms(const scheduled *s, rooms *all)
{
    all->count = 0;
    for (int64_t i = 0; i < s->graph->node_count; i++) {
        const cero_node *node = s->graph->nodes[i];
        if (is_exchange(node)) {
            see_exchange(all, node, i);
        }
        for (int k = 0; k < node->input_count; k++) {
            see_value(s, all, node->input[k], i);
        }
        for (int k = 0; k < node->output_count; k++) {
            see_value(s, all, node->output[k], i);
        }
    }
}

/* True when no instruction of the model stands between two places. */
static bool is_adjacent(const scheduled *s, int64_t before, int64_t after)
{
    for (int64_t i = before + 1; i < after; i++) {
        if (!is_exchange(s->graph->nodes[i])) {
            return false;
        }
    }
    return true;
}

/* Gathers: started, finished, used, released. Reductions: all written, started, finished, released. */
static void check_order(const scheduled *s, const rooms *all)
{
    for (int i = 0; i < all->count; i++) {
        const room *r = &all->list[i];
        assert_true(r->start >= 0 && r->start < r->finish && r->finish < r->release);
        assert_int_equal(r->last, r->release);
        if (r->unit >= 0) {
            assert_int_equal(r->first, r->start);
            assert_true(r->finish < r->first_use && r->last_use < r->release);
            assert_true(is_adjacent(s, r->finish, r->first_use));
            assert_true(is_adjacent(s, r->last_use, r->release));
        } else {
            assert_true(r->last_use < r->start);
            assert_true(is_adjacent(s, r->last_use, r->start));
        }
    }
}

/* Reductions start in the order in which they are ready, and end in that order, which is all ranks' order. */
static void check_reductions(const scheduled *s, const rooms *all)
{
    int count = 0;

    for (int i = 0; i < all->count; i++) {
        const room *a = &all->list[i];
        count += a->unit < 0 ? 1 : 0;
        for (int k = 0; k < all->count && a->unit < 0; k++) {
            const room *b = &all->list[k];
            if (b->unit < 0 && a->start < b->start) {
                assert_true(a->last_use < b->last_use && a->finish < b->finish &&
                            a->release < b->release);
            }
        }
        if (a->unit < 0 && !s->spec->overlap_comm) {
            assert_true(is_adjacent(s, a->start, a->release));
        }
    }
    int trained = 0;
    const cero_zero_layout *layout = cero_zero_get_layout(s->zero);
    for (int64_t u = 0; u < layout->unit_count; u++) {
        trained += layout->units[u].range[CERO_ZERO_TRAINED].numel > 0 ? 1 : 0;
    }
    assert_int_equal(count, trained);
}

/* Parameters of units that are cut are only read in rooms; whole ones after their refresh, which comes once. */
static void check_uses(const scheduled *s, int stage)
{
    int refreshed[MAX_UNITS] = {0};
    bool is_used[MAX_UNITS] = {false};

    for (int64_t i = 0; i < s->graph->node_count; i++) {
        const cero_node *node = s->graph->nodes[i];
        if (is_node(node, "refresh_finish")) {
            assert_int_equal(refreshed[node->unit]++, 0);
            assert_false(is_used[node->unit]);
            continue;
        }
        for (int k = 0; k < node->input_count; k++) {
            const cero_value *v = node->input[k];
            if (v->kind != CERO_VALUE_PARAM) {
                continue;
            }
            int unit = s->graph->params[v->param].unit;
            assert_int_equal(v->home != NULL, stage == 3);
            assert_true(stage == 3 || refreshed[unit] == 1);
            is_used[unit] = true;
        }
    }
}

/* Whenever the model computes: what is under way, and what is gathered at all, is within the limits. */
static void check_limits(const scheduled *s, const rooms *all)
{
    int64_t eighth = cero_zero_get_layout(s->zero)->numel / 8;

    for (int64_t i = 0; i < s->graph->node_count; i++) {
        int64_t ahead = 0;
        int64_t live = 0;
        int count = 0;
        for (int k = 0; k < all->count && !is_exchange(s->graph->nodes[i]); k++) {
            const room *r = &all->list[k];
            bool is_ahead = r->start < i && i < r->finish;
            if (r->unit >= 0 && r->start < i && i < r->release) {
                live += r->numel;
                ahead += is_ahead ? r->numel : 0;
                count += is_ahead ? 1 : 0;
            }
        }
        assert_true(ahead <= s->spec->stage3_prefetch_bucket_size);
        assert_true(count <= 1 || ahead <= eighth);
        assert_true(count == 0 || live <= s->spec->stage3_max_live_parameters);
    }
}

static void check_memory(const scheduled *s, const rooms *all)
{
    for (int i = 0; i < all->count; i++) {
        const room *a = &all->list[i];
        size_t a_at = cero_program_room_offset(s->program, a->value);
        assert_true(a_at + cero_plan_value_bytes(a->value) <=
                    cero_program_get_stats(s->program)->exchange_bytes);
        for (int k = 0; k < i; k++) {
            const room *b = &all->list[k];
            size_t b_at = cero_program_room_offset(s->program, b->value);
            if (a->first <= b->last && b->first <= a->last) {
                assert_true(a_at + cero_plan_value_bytes(a->value) <= b_at ||
                            b_at + cero_plan_value_bytes(b->value) <= a_at);
            }
        }
    }
}

static void check(const scheduled *s)
{
    static rooms all;

    find_rooms(s, &all);
    check_order(s, &all);
    check_reductions(s, &all);
    check_uses(s, s->spec->zero_stage);
    check_limits(s, &all);
    check_memory(s, &all);
}

/* One parameter in three, the same for the same graph; never the first, which is part of every loss. */
static bool is_frozen(const void *context, const char *name)
{
    long p = strtol(name + 1, NULL, 10);

    return p > 0 && random_below(900 + *(const uint64_t *)context, p, 3) == 0;
}

static void test_random_graphs(void **state)
{
    static const char *const stages[] = {"zero_optimization.stage=3", "zero_optimization.stage=3",
                                         "zero_optimization.stage=2", "zero_optimization.stage=1"};
    static const char *const overlaps[] = {"zero_optimization.overlap_comm=true",
                                           "zero_optimization.overlap_comm=false"};
    static const char *const groups[] = {"cero.checkpoint_units=0", "cero.checkpoint_units=1",
                                         "cero.checkpoint_units=2", "cero.checkpoint_units=3"};

    CERO_UNUSED(state);
    for (uint64_t number = 0; number < GRAPHS; number++) {
        scheduled s;
        char bucket[96];
        char live[96];
        (void)snprintf(bucket, sizeof(bucket), "zero_optimization.stage3_prefetch_bucket_size=%lld",
                       (long long)(random_below(800, (int64_t)number, 5) * 700));
        (void)snprintf(live, sizeof(live), "zero_optimization.stage3_max_live_parameters=%lld",
                       (long long)(1 + random_below(801, (int64_t)number, 5) * 1500));
        open_world(&s, (const char *const[]){stages[number % 4], overlaps[number / 4 % 2],
                                             groups[number / 8 % 4], bucket, live, NULL});
        if (number % 3 == 2) {
            cero_graph_set_frozen(s.graph, is_frozen, &number);
        }
        random_graph_build(s.graph, number, NULL);
        schedule(&s);
        check(&s);
        close_world(&s);
    }
}

/* A model of the cases, and how often a step gathers one of its units. */
static int64_t uses_of(const cero_model_spec *spec, int64_t *ahead, const char *const *sets)
{
    scheduled s;
    cero_zero_cost cost;

    open_world(&s, sets);
    assert_ok(cero_model_build(
        s.graph, &(cero_model_shape){.mode = CERO_MODEL_TRAIN, .micro_batch = 2, .seq_len = 8},
        spec));
    schedule(&s);
    check(&s);
    cero_zero_schedule_cost(s.schedule, &cost);
    close_world(&s);
    if (ahead != NULL) {
        *ahead = cost.uses_ahead;
    }
    return cost.uses;
}

/*
 * Two layers: embedding, blocks, head; head, blocks. Where the head uses the embedding's table they alternate,
 * and only the table's own two uses meet.
 */
static void test_uses_of_models(void **state)
{
    cero_model_spec g1 = case_g1();
    cero_model_spec l1 = case_l1();
    int64_t ahead;

    CERO_UNUSED(state);
    assert_int_equal(uses_of(&l1, &ahead, (const char *const[]){NULL}), 6);
    assert_int_equal(ahead, 5); // all but the first
    assert_int_equal(uses_of(&g1, &ahead, (const char *const[]){NULL}), 8);
    assert_int_equal(ahead, 7);
    assert_int_equal(
        uses_of(&l1, &ahead,
                (const char *const[]){"zero_optimization.stage3_prefetch_bucket_size=0", NULL}),
        6);
    assert_int_equal(ahead, 0);
    // A bucket of one block takes blocks ahead, and no more than one.
    assert_int_equal(
        uses_of(&l1, &ahead,
                (const char *const[]){"zero_optimization.stage3_prefetch_bucket_size=46000", NULL}),
        6);
    assert_int_equal(ahead, 5);
    // Nothing may live beside what is used now.
    assert_int_equal(
        uses_of(&l1, &ahead,
                (const char *const[]){"zero_optimization.stage3_max_live_parameters=46000", NULL}),
        6);
    assert_int_equal(ahead, 0);
}

/* What is recomputed and differentiated together is gathered once, while there is room for the group. */
static void test_recomputed_groups(void **state)
{
    cero_model_spec l1 = case_l1();

    CERO_UNUSED(state);
    assert_int_equal(uses_of(&l1, NULL, (const char *const[]){"cero.checkpoint_units=1", NULL}), 6);
    assert_int_equal(uses_of(&l1, NULL, (const char *const[]){"cero.checkpoint_units=2", NULL}), 6);
    assert_int_equal(
        uses_of(&l1, NULL,
                (const char *const[]){"cero.checkpoint_units=2",
                                      "zero_optimization.stage3_max_live_parameters=60000", NULL}),
        7);
}

/* Two linear layers of `numel` elements each, in units of their own or in one. */
static void build_layers(cero_graph *graph, int layers, int64_t width, bool has_units)
{
    cero_value *x = cero_graph_input(graph, "x", CERO_DTYPE_F32, cero_shape_2d(1, width));

    for (int i = 0; i < layers; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "layer%d", i);
        if (has_units || i == 0) {
            cero_graph_begin_unit(graph, name, false);
        }
        x = cero_graph_linear(graph, x, test_param(graph, name, width, width), NULL, false);
        if (has_units || i == layers - 1) {
            cero_graph_end_unit(graph);
        }
    }
    (void)set_weighted_loss(graph, x, NULL);
}

/* Units that are cut, of a model of `layers` layers of 4 Mi elements. */
static int64_t cut_units(int layers, bool has_units)
{
    scheduled s;
    cero_zero_cost cost;
    cero_zero_summary summary;

    open_world(&s, (const char *const[]){NULL});
    build_layers(s.graph, layers, 2048, has_units);
    schedule(&s);
    cero_zero_schedule_cost(s.schedule, &cost);
    cero_zero_get_summary(s.zero, &cost, &summary);
    close_world(&s);
    return summary.unit_count - summary.whole_units;
}

/* A unit is cut only where its room takes no more than cutting saves: not when it is all of the model. */
static void test_units_too_large_to_cut(void **state)
{
    CERO_UNUSED(state);
    assert_int_equal(cut_units(1, true), 0);
    assert_int_equal(cut_units(3, false), 0);
    assert_int_equal(cut_units(2, true), 2);
    assert_int_equal(cut_units(5, true), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_graphs),
        cmocka_unit_test(test_uses_of_models),
        cmocka_unit_test(test_recomputed_groups),
        cmocka_unit_test(test_units_too_large_to_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
