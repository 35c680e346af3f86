/* SPDX-License-Identifier: Apache-2.0 */
/* The scalars of a step under DeepSpeed's tags, and the list of monitors that get them. */
#include "train/monitor.h"

#include "base/file.h"
#include "base/memory.h"
#include "train/csv_monitor.h"
#include "train/tensorboard.h"

enum {
    KINDS = 2
};

typedef struct open_monitor {
    const cero_monitor_ops *ops;
    void *monitor; /* owned */
} open_monitor;

struct cero_monitors {
    bool has_loss_scale;
    bool has_times;
    int count;
    open_monitor list[KINDS];
};

/* What a config section says of a monitor. */
typedef struct monitor_section {
    const char *name;
    const cero_monitor_ops *ops;
    bool is_enabled;
    const char *output_path;
    const char *job_name;
} monitor_section;

typedef struct point_list {
    int count;
    cero_monitor_point point[CERO_MONITOR_MAX_POINTS];
} point_list;

static void add(point_list *list, const char *tag, double value)
{
    CERO_ASSERT(list->count < CERO_MONITOR_MAX_POINTS);
    list->point[list->count++] = (cero_monitor_point){tag, value};
}

static void collect(const cero_monitors *monitors, const cero_metrics_step *s, point_list *list)
{
    const cero_step_stats *t = &s->stats;

    list->count = 0;
    add(list, "Train/Samples/train_loss", t->loss);
    add(list, "Train/Samples/lr", t->lr);
    add(list, "Train/Samples/grad_norm", t->grad_norm);
    if (monitors->has_loss_scale) {
        add(list, "Train/Samples/loss_scale", t->loss_scale);
    }
    if (monitors->has_times) {
        add(list, "Train/Samples/elapsed_time_ms_forward", t->seconds_forward * 1e3);
        add(list, "Train/Samples/elapsed_time_ms_backward", t->seconds_backward * 1e3);
        add(list, "Train/Samples/elapsed_time_ms_backward_inner", t->seconds_backward * 1e3);
        add(list, "Train/Samples/elapsed_time_ms_backward_allreduce", t->seconds_exchange * 1e3);
        add(list, "Train/Samples/elapsed_time_ms_step", t->seconds_update * 1e3);
    }
    if (s->has_eval) {
        add(list, "Eval/loss", s->eval_loss);
    }
}

/* OUTPUT_PATH/JOB_NAME, or the run directory when no path is given. NULL: no memory. */
static char *name_dir(const monitor_section *section, const char *out)
{
    if (section->output_path[0] == '\0') {
        return cero_strdup(out);
    }
    return section->job_name[0] == '\0' ? cero_strdup(section->output_path)
                                        : cero_file_join(section->output_path, section->job_name);
}

static cero_status open_one(cero_monitors *monitors, const monitor_section *section,
                            const cero_monitors_params *params)
{
    cero_status st = CERO_OK;
    open_monitor *slot = &monitors->list[monitors->count];
    point_list tags;
    char *dir = name_dir(section, params->out);

    if (dir == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for the folder of %s", section->name);
    }
    collect(monitors, &(cero_metrics_step){.has_eval = params->has_eval}, &tags);
    CERO_TRY_GOTO(cero_file_make_dir(dir), out);
    if (params->is_resumed && section->ops->reopen != NULL) {
        CERO_TRY_GOTO(
            section->ops->reopen(dir, tags.point, tags.count, params->samples, &slot->monitor),
            out);
    } else {
        CERO_TRY_GOTO(section->ops->open(dir, tags.point, tags.count, &slot->monitor), out);
    }
    slot->ops = section->ops;
    monitors->count++;
out:
    cero_delete(dir);
    return st == CERO_OK ? st : cero_error_prefix(st, "%s: ", section->name);
}

cero_status cero_monitors_open(const cero_monitors_params *params, cero_monitors **out)
{
    cero_status st = CERO_OK;
    const cero_train_spec *spec = params->spec;
    const monitor_section sections[KINDS] = {
        {"tensorboard", &cero_monitor_tensorboard, spec->tensorboard_enabled,
         spec->tensorboard_output_path, spec->tensorboard_job_name},
        {"csv_monitor", &cero_monitor_csv, spec->csv_monitor_enabled, spec->csv_monitor_output_path,
         spec->csv_monitor_job_name},
    };
    cero_monitors *monitors = cero_new(1, sizeof(*monitors));

    if (monitors == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for the list of monitors");
    }
    monitors->has_loss_scale = spec->compute_dtype == CERO_DTYPE_F16;
    monitors->has_times = spec->wall_clock_breakdown;
    for (int i = 0; i < KINDS; i++) {
        if (sections[i].is_enabled) {
            CERO_TRY_GOTO(open_one(monitors, &sections[i], params), fail);
        }
    }
    *out = monitors;
    return CERO_OK;

fail:
    cero_monitors_close(&monitors);
    return st;
}

cero_status cero_monitors_write(cero_monitors *monitors, const cero_metrics_step *step)
{
    point_list list;

    collect(monitors, step, &list);
    for (int i = 0; i < monitors->count; i++) {
        const open_monitor *m = &monitors->list[i];
        CERO_TRY(m->ops->write(m->monitor, step->samples, list.point, list.count));
    }
    return CERO_OK;
}

void cero_monitors_close(cero_monitors **monitors)
{
    if (monitors == NULL || *monitors == NULL) {
        return;
    }
    for (int i = 0; i < (*monitors)->count; i++) {
        (*monitors)->list[i].ops->close((*monitors)->list[i].monitor);
    }
    cero_delete(*monitors);
    *monitors = NULL;
}
