/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A loop of steps with collectives runs in every world this process is started in, leaves it, and ends with code 0.
 * test_world_start.sh starts it in the wrong worlds too, and stops and kills its ranks.
 *
 * usage: test_steps [steps=N] [timeout=SECONDS] [fail=RANK] [alone=RANK] [pids=FOLDER] [out=FILE]
 */
// RUN: np=1,2,3 args=steps=50
#include "harness.h"

#include "comm/comm.h"

#include <time.h>
#include <unistd.h>

typedef struct options {
    long steps;
    double timeout;
    long fail;  /* this rank fails in step 5 */
    long alone; /* this rank alone does something else in step 5 */
    const char *pids;
    const char *out;
} options;

static const char *value_of(const char *argument, const char *name)
{
    size_t length = strlen(name);

    return strncmp(argument, name, length) == 0 && argument[length] == '=' ? argument + length + 1
                                                                           : NULL;
}

static options read_options(int argc, char **argv)
{
    options o = {.steps = 10, .timeout = 30.0, .fail = -1, .alone = -1};

    for (int i = 1; i < argc; i++) {
        const char *v;
        o.steps = (v = value_of(argv[i], "steps")) != NULL ? strtol(v, NULL, 10) : o.steps;
        o.timeout = (v = value_of(argv[i], "timeout")) != NULL ? strtod(v, NULL) : o.timeout;
        o.fail = (v = value_of(argv[i], "fail")) != NULL ? strtol(v, NULL, 10) : o.fail;
        o.alone = (v = value_of(argv[i], "alone")) != NULL ? strtol(v, NULL, 10) : o.alone;
        o.pids = (v = value_of(argv[i], "pids")) != NULL ? v : o.pids;
        o.out = (v = value_of(argv[i], "out")) != NULL ? v : o.out;
    }
    return o;
}

/* FOLDER/RANK holds this process's number once it is in its steps. */
static void write_pid(const char *folder, int rank)
{
    char path[4096];

    (void)snprintf(path, sizeof(path), "%s/%d.part", folder, rank);
    FILE *f = fopen(path, "w");
    if (f != NULL) {
        char whole[4096];
        (void)fprintf(f, "%ld\n", (long)getpid());
        (void)fclose(f);
        (void)snprintf(whole, sizeof(whole), "%s/%d", folder, rank);
        (void)rename(path, whole);
    }
}

static void work(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static cero_status run_steps(cero_comm *comm, const options *o)
{
    int rank = cero_comm_rank(comm);

    for (long step = 1; step <= o->steps; step++) {
        int64_t sum = step;
        cero_comm_note(comm, "step", step);
        work();
        cero_comm_poll(comm);
        if (step == 5 && o->fail == rank) {
            return cero_comm_fail(comm, CERO_FAIL(CERO_ERR_IO, "/data/tokens.bin: input error"));
        }
        if (step == 5 && o->alone == rank) {
            cero_comm_note(comm, "save", step);
            CERO_TRY(cero_comm_barrier(comm));
        }
        CERO_TRY(cero_comm_all_reduce_i64(comm, CERO_COMM_SUM, &sum, 1));
        CERO_CHECK(sum == step * cero_comm_size(comm), CERO_ERR_INTERNAL, "the sum is wrong");
        if (step == 3 && o->pids != NULL) {
            write_pid(o->pids, rank);
        }
    }
    return CERO_OK;
}

int main(int argc, char **argv)
{
    options o = read_options(argc, argv);
    cero_comm *comm = NULL;

    cero_status st =
        cero_comm_create_world(&(cero_comm_params){.timeout_seconds = o.timeout}, &comm);
    if (st != CERO_OK) {
        (void)fprintf(stderr, "error: %s\n", cero_error_message());
        return EXIT_FAILURE;
    }
    FILE *out = o.out != NULL ? fopen(o.out, "w") : stdout;
    st = run_steps(comm, &o);
    if (st != CERO_OK) {
        (void)fprintf(stderr, "rank %d: error: %s\n", cero_comm_rank(comm), cero_error_message());
        cero_comm_abort(comm, 75);
        return 75;
    }
    (void)fprintf(out, "rank %d of %d, %s, shared memory %s\n", cero_comm_rank(comm),
                  cero_comm_size(comm), cero_comm_transport_name(comm),
                  cero_comm_has_shared_memory(comm) ? "yes" : "no");
    cero_comm_destroy(&comm);
    return EXIT_SUCCESS;
}
