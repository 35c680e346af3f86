/* SPDX-License-Identifier: Apache-2.0 */
/* Charts have round ticks that cover the data, place points where they belong, and escape labels. */
#include "harness.h"

#include "cli/chart.h"

#include <math.h>

static void test_ticks_are_round_and_cover(void **state)
{
    static const double spans[][2] = {{0, 1},       {2.21, 7.69}, {-3, 17},        {1e-9, 3e-9},
                                      {1e12, 5e12}, {5, 5},       {0, 0},          {-0.25, -0.2},
                                      {100, 100.5}, {0.1, 0.3},   {-1e-300, 1e300}};
    (void)state;

    for (size_t i = 0; i < CERO_COUNT_OF(spans); i++) {
        double first = 0;
        double step = cero_chart_ticks(spans[i][0], spans[i][1], 6, &first);
        double digit = step / pow(10, floor(log10(step * (1 + 1e-9))));
        assert_true(fabs(digit - 1) < 1e-6 || fabs(digit - 2) < 1e-6 || fabs(digit - 5) < 1e-6);
        assert_true(first <= spans[i][0]);
        assert_true(spans[i][0] - first <= step * 1.000001);
    }
}

static void draw(const cero_chart_point *points, int64_t count, bool is_unicode, cero_text *out)
{
    cero_chart chart = {
        .title = "t", .x_label = "step", .y_label = "loss", .points = points, .count = count};
    cero_chart_text_params params = {.width = 40, .height = 6, .is_unicode = is_unicode};
    assert_ok(cero_chart_write_text(&chart, &params, out));
}

static void test_text_chart(void **state)
{
    static const cero_chart_point points[] = {{0, 4}, {10, 0}};
    cero_text text = {0};
    (void)state;

    // Smoothing makes the second point the mean of both, less a little: it stays inside the grid.
    draw(points, 2, false, &text);
    assert_non_null(strstr(text.data, "\n       4 |*"));
    assert_non_null(strstr(text.data, "\n       0 |"));
    assert_non_null(strstr(text.data, "+------------------------------\n"));
    assert_non_null(strstr(text.data, "step\n"));
    for (const char *p = text.data; *p != '\0'; p++) {
        assert_true((unsigned char)*p < 0x80);
    }
    cero_text_cleanup(&text);
    draw(points, 2, true, &text);
    assert_non_null(strstr(text.data, "\xE2\xA0"));
    cero_text_cleanup(&text);
}

static void test_one_point_and_flat_lines(void **state)
{
    static const cero_chart_point one[] = {{7, 3}};
    static const cero_chart_point flat[] = {{1, 0}, {2, 0}, {3, 0}};
    cero_text text = {0};
    (void)state;

    draw(one, 1, false, &text);
    assert_non_null(strchr(text.data, '*'));
    draw(flat, 3, true, &text);
    cero_text_cleanup(&text);
}

static void test_svg(void **state)
{
    static const cero_chart_point points[] = {{1, 3}, {2, 2}, {3, 1}};
    cero_chart chart = {
        .title = "a<b & c", .x_label = "step", .y_label = "loss", .points = points, .count = 3};
    cero_text svg = {0};
    (void)state;

    assert_ok(cero_chart_write_svg(&chart, &svg));
    assert_int_equal(strncmp(svg.data, "<svg xmlns=", 11), 0);
    assert_non_null(strstr(svg.data, "a&lt;b &amp; c"));
    // The first point is at the left border of the plot and at the top: 3 is the highest tick.
    assert_non_null(strstr(svg.data, "points=\"64.0,44.0 "));
    assert_non_null(strstr(svg.data, " 700.0,348.0\"/>"));
    assert_null(strstr(svg.data, "nan"));
    cero_text_cleanup(&svg);
}

static void test_long_runs_are_thinned(void **state)
{
    enum {
        COUNT = 100000
    };
    cero_chart_point *points = cero_new(COUNT, sizeof(points[0]));
    cero_text svg = {0};
    (void)state;

    for (int i = 0; i < COUNT; i++) {
        points[i] = (cero_chart_point){.x = i, .y = 1.0 / (i + 1)};
    }
    cero_chart chart = {
        .title = "", .x_label = "", .y_label = "", .points = points, .count = COUNT};
    assert_ok(cero_chart_write_svg(&chart, &svg));
    assert_true(svg.length < 32768);
    cero_text_cleanup(&svg);
    cero_delete(points);
}

static void test_every_failed_allocation(void **state)
{
    static const cero_chart_point points[] = {{1, 3}, {2, 2}};
    cero_chart chart = {.title = "t", .x_label = "x", .y_label = "y", .points = points, .count = 2};
    cero_chart_text_params params = {0};
    (void)state;

    for (uint64_t n = 1; n <= 3; n++) {
        cero_text text = {0};
        cero_mem_fail_at(n);
        assert_int_equal(cero_chart_write_text(&chart, &params, &text), CERO_ERR_NOMEM);
        cero_text_cleanup(&text);
        cero_mem_fail_at(n);
        cero_status st = cero_chart_write_svg(&chart, &text);
        assert_int_equal(st, CERO_ERR_NOMEM);
        cero_mem_fail_at(0);
        cero_text_cleanup(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ticks_are_round_and_cover),
        cmocka_unit_test(test_text_chart),
        cmocka_unit_test(test_one_point_and_flat_lines),
        cmocka_unit_test(test_svg),
        cmocka_unit_test(test_long_runs_are_thinned),
        cmocka_unit_test(test_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
