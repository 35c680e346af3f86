/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The flat space holds every element once, trainable ranges before frozen ones: sizes nothing divides, padding
 * only at a range's tail. Shards cover a range once, with borders at blocks of 256. A pattern that matches
 * nothing is refused.
 */
#include "harness.h"

#include "zero/layout.h"

typedef struct case_param {
    const char *name;
    cero_shape shape;
    bool is_frozen;
    bool opens_unit;
} case_param;

static const case_param cases[] = {
    {"embed.weight", {2, {7, 3}}, false, true}, {"h.0.weight", {2, {17, 19}}, false, true},
    {"h.0.bias", {1, {19}}, true, false},       {"h.0.scale", {1, {1}}, false, false},
    {"h.1.weight", {2, {16, 16}}, false, true}, /* exactly 256 */
    {"h.2.weight", {1, {257}}, true, true},     /* a unit that is frozen whole */
    {"last.bias", {0, {0}}, false, true},       /* a scalar */
};

enum {
    CASES = sizeof(cases) / sizeof(cases[0])
};

static void make_graph(cero_device **device, cero_graph **graph)
{
    assert_ok(cero_device_create(&(cero_device_params){.name = "meta"}, device));
    assert_ok(cero_graph_create(*device, CERO_DTYPE_F32, graph));
    for (int i = 0; i < CASES; i++) {
        if (cases[i].opens_unit) {
            if (i > 0) {
                cero_graph_end_unit(*graph);
            }
            cero_graph_begin_unit(*graph, cases[i].name, false);
        }
        (void)cero_graph_param(*graph, &(cero_param_params){.name = cases[i].name,
                                                            .shape = cases[i].shape,
                                                            .is_embedding = i == 0,
                                                            .is_frozen = cases[i].is_frozen});
    }
    cero_graph_end_unit(*graph);
    assert_ok(cero_graph_status(*graph));
}

/* Marks begin .. begin + n and complains of a second mark. */
static void mark(unsigned char *marks, int64_t size, int64_t begin, int64_t n)
{
    assert_true(begin >= 0 && begin + n <= size);
    for (int64_t i = begin; i < begin + n; i++) {
        assert_int_equal(marks[i], 0);
        marks[i] = 1;
    }
}

static void check_params(const cero_zero_layout *l)
{
    unsigned char all[4096] = {0};
    int64_t numel = 0;
    int64_t trained_numel = 0;

    for (int64_t i = 0; i < l->param_count; i++) {
        const cero_zero_param *p = &l->params[i];
        const cero_zero_range *range = &l->units[p->unit].range[cero_zero_param_part(p)];
        assert_string_equal(p->name, cases[i].name);
        assert_int_equal(p->numel, cero_shape_numel(&cases[i].shape));
        assert_int_equal(cero_zero_layout_find(l, cases[i].name), i);
        mark(all, l->padded, p->offset, p->numel);
        assert_int_equal(cero_zero_param_begin(l, p), p->offset - range->offset);
        assert_true(p->offset >= range->offset &&
                    p->offset + p->numel <= range->offset + range->numel);
        assert_int_equal(p->offset >= l->trained_padded, cases[i].is_frozen);
        numel += p->numel;
        trained_numel += p->is_frozen ? 0 : p->numel;
    }
    assert_int_equal(l->numel, numel);
    assert_int_equal(l->trained_numel, trained_numel);
}

static void check_units(const cero_zero_layout *l)
{
    int64_t offset = 0;

    for (int part = 0; part < CERO_ZERO_PARTS; part++) {
        for (int64_t u = 0; u < l->unit_count; u++) {
            assert_int_equal(l->units[u].range[part].offset, offset);
            offset += cero_zero_round_up(l->units[u].range[part].numel);
        }
        assert_int_equal(part == CERO_ZERO_TRAINED ? l->trained_padded : l->padded, offset);
    }
}

static void test_shards_cover_a_range(void **state)
{
    static const int64_t numels[] = {0, 1, 255, 256, 257, 11277, 1 << 20, (1 << 20) + 1};
    static const int sizes[] = {1, 2, 3, 4, 5, 7, 8, 64, 4096};

    CERO_UNUSED(state);
    for (size_t i = 0; i < CERO_COUNT_OF(numels); i++) {
        for (size_t k = 0; k < CERO_COUNT_OF(sizes); k++) {
            int64_t blocks = cero_zero_round_up(numels[i]) / CERO_ZERO_ALIGNMENT;
            assert_int_equal(cero_zero_border(numels[i], sizes[k], 0), 0);
            assert_int_equal(cero_zero_border(numels[i], sizes[k], sizes[k]), numels[i]);
            for (int j = 0; j < sizes[k]; j++) {
                int64_t begin = cero_zero_border(numels[i], sizes[k], j);
                int64_t n = cero_zero_border(numels[i], sizes[k], j + 1) - begin;
                assert_true(begin % CERO_ZERO_ALIGNMENT == 0 || begin == numels[i]);
                assert_true(n >= 0 && n <= (blocks / sizes[k] + 1) * CERO_ZERO_ALIGNMENT);
            }
        }
    }
}

static void test_every_element_once(void **state)
{
    cero_device *device = NULL;
    cero_graph *graph = NULL;
    cero_zero_layout layout;
    cero_patterns no_decay = {.count = 2, .pattern = {"*.bias", "h.?.scale"}};

    CERO_UNUSED(state);
    make_graph(&device, &graph);
    assert_ok(cero_zero_layout_create(graph, &no_decay, &layout));
    assert_int_equal(layout.param_count, CASES);
    assert_int_equal(layout.unit_count, 5);
    assert_int_equal(layout.numel, 21 + 323 + 19 + 1 + 256 + 257 + 1);
    assert_int_equal(layout.trained_numel, 21 + 323 + 1 + 256 + 1);
    assert_int_equal(layout.trained_padded, 256 + 512 + 256 + 0 + 256);
    assert_int_equal(layout.padded, layout.trained_padded + 256 + 512);
    check_params(&layout);
    check_units(&layout);
    // Decay: trained tensors that no pattern names.
    assert_int_equal(layout.decay_tensors, 3);
    assert_int_equal(layout.decay_numel, 21 + 323 + 256);
    assert_false(layout.params[cero_zero_layout_find(&layout, "h.0.scale")].has_decay);
    assert_false(layout.params[0].is_matrix); // an embedding
    assert_true(layout.params[1].is_matrix);
    assert_int_equal(cero_zero_layout_find(&layout, "absent"), -1);
    cero_zero_layout_cleanup(&layout);
    cero_graph_destroy(&graph);
    cero_device_destroy(&device);
}

static void test_pattern_without_match(void **state)
{
    cero_device *device = NULL;
    cero_graph *graph = NULL;
    cero_zero_layout layout;
    cero_patterns no_decay = {.count = 2, .pattern = {"*.bias", "*.biass"}};

    CERO_UNUSED(state);
    make_graph(&device, &graph);
    assert_fails(cero_zero_layout_create(graph, &no_decay, &layout), CERO_ERR_INVALID,
                 "cero.no_decay: the pattern \"*.biass\" matches none of the model's 7 parameters");
    cero_graph_destroy(&graph);
    cero_device_destroy(&device);
}

static void test_failing_allocations(void **state)
{
    cero_device *device = NULL;
    cero_graph *graph = NULL;
    cero_zero_layout layout;

    CERO_UNUSED(state);
    make_graph(&device, &graph);
    for (uint64_t n = 1;; n++) {
        cero_mem_fail_at(n);
        cero_status st = cero_zero_layout_create(graph, NULL, &layout);
        cero_mem_fail_at(0);
        if (st == CERO_OK) {
            assert_int_equal(n, 2 + CASES + layout.unit_count + 1);
            cero_zero_layout_cleanup(&layout);
            break;
        }
        assert_int_equal(st, CERO_ERR_NOMEM);
    }
    cero_graph_destroy(&graph);
    cero_device_destroy(&device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_element_once),
        cmocka_unit_test(test_shards_cover_a_range),
        cmocka_unit_test(test_pattern_without_match),
        cmocka_unit_test(test_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
