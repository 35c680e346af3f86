/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way into MPI and out of it: whether a launcher started this process, MPI_Init and MPI_Finalize, the
 * caller's communicator, the end of all processes; and what this process knows of its communicators.
 *
 * MPI is initialised only for a process that a launcher started: a plain command starts at once, and works
 * where no daemon of an MPI may run.
 */
#include "base/process.h"
#include "comm/mpi/mpi_job_impl.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    MESSAGE_LIMIT = 1 << 30,
    LEAST_MESSAGE = 8, /* one integer of a sum */
    ABORT_SECONDS = 10,
    READ_NANOSECONDS = 300000000
};

#define DEFAULT_TIMEOUT 60.0

static cero_mpi_process process = {.failed_rank = -1};

/* MPI was entered, found to be a world of one, and left. */
static bool is_alone;

cero_mpi_process *cero_mpi_process_get(void)
{
    return &process;
}

/* What the environment says of the launcher. */
typedef struct launcher {
    bool is_there;
    const char *variable; /* that promises a size; NULL: none does */
    long size;
} launcher;

/* A positive number, or 0. */
static long number_in(const char *variable)
{
    const char *text = getenv(variable);
    char *end;

    if (text == NULL || text[0] == '\0') {
        return 0;
    }
    errno = 0;
    long value = strtol(text, &end, 10);
    return errno == 0 && *end == '\0' && value > 0 ? value : 0;
}

static void promise(launcher *l, const char *variable)
{
    long size = number_in(variable);

    if (size > l->size) {
        *l = (launcher){.is_there = true, .variable = variable, .size = size};
    }
}

/*
 * A batch script is inside a job of Slurm and no step of it, and a step of one task is a shell as a rule: both
 * are worlds of one. Slurm's step counts when no launcher of MPI's own says more: those start their helpers as
 * steps.
 */
static launcher find_launcher(void)
{
    launcher l = {0};

    promise(&l, "OMPI_COMM_WORLD_SIZE");
    promise(&l, "PMI_SIZE");
    promise(&l, "MV2_COMM_WORLD_SIZE");
    if (l.is_there) {
        return l;
    }
    if (getenv("SLURM_STEP_ID") != NULL) {
        promise(&l, "SLURM_STEP_NUM_TASKS");
        return l.size > 1 ? l : (launcher){0};
    }
    l.is_there = getenv("PMIX_RANK") != NULL || getenv("PMI_RANK") != NULL;
    return l;
}

static cero_status initialise(void)
{
    int level;

    CERO_TRY_MPI(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level), "MPI_Init_thread");
    process.is_ours = true;
    CERO_CHECK(level >= MPI_THREAD_FUNNELED, CERO_ERR_UNSUPPORTED,
               "this MPI allows no threads beside the one that calls it (level %d, needed %d); use "
               "an MPI built with threads",
               level, MPI_THREAD_FUNNELED);
    return CERO_OK;
}

/* Leaves MPI when it was entered here, nothing of ours is left in it, and all ranks come. */
static void finalise_if_last(void)
{
    if (process.is_ours && process.communicators == 0 && process.status == CERO_OK) {
        process.is_ours = false;
        (void)MPI_Finalize();
    }
}

void cero_mpi_leave(void)
{
    process.communicators--;
    finalise_if_last();
}

static cero_status check_not_finalised(void)
{
    int is_finalised;

    CERO_TRY_MPI(MPI_Finalized(&is_finalised), "MPI_Finalized");
    CERO_CHECK(
        !is_finalised, CERO_ERR_INVALID,
        "MPI was finalised in this process, and cannot be initialised again; keep one context "
        "for as long as the process needs its world");
    return CERO_OK;
}

static cero_status read_params(const cero_comm_params *params, cero_comm_params *out)
{
    *out = params != NULL ? *params : (cero_comm_params){0};
    CERO_CHECK(out->ranks_per_node >= 0, CERO_ERR_INVALID,
               "%d ranks per node; expected a positive number, or 0 for what shares memory",
               out->ranks_per_node);
    CERO_CHECK(out->message_limit >= 0, CERO_ERR_INVALID,
               "messages of at most %lld bytes; expected a positive number, or 0 for 1 GiB",
               (long long)out->message_limit);
    out->timeout_seconds = out->timeout_seconds == 0.0 ? DEFAULT_TIMEOUT : out->timeout_seconds;
    out->message_limit = out->message_limit == 0 ? MESSAGE_LIMIT : out->message_limit;
    // One message's count is an int.
    out->message_limit = out->message_limit > INT_MAX ? INT_MAX : out->message_limit;
    out->message_limit = out->message_limit < LEAST_MESSAGE ? LEAST_MESSAGE : out->message_limit;
    return CERO_OK;
}

/* A transport over a duplicate of `comm`; a world of one needs none. */
static cero_status create_over(MPI_Comm comm, const cero_comm_params *params, cero_comm **out)
{
    cero_comm_params p;
    MPI_Request request;
    int size;

    CERO_TRY(read_params(params, &p));
    CERO_TRY_MPI(MPI_Comm_size(comm, &size), "MPI_Comm_size");
    if (size == 1) {
        return cero_comm_create_self(out);
    }
    CERO_TRY_MPI(MPI_Comm_idup(comm, &process.copy, &request), "MPI_Comm_idup");
    CERO_TRY(cero_mpi_wait_plain(&request, p.timeout_seconds, "make a communicator"));
    CERO_TRY_MPI(MPI_Comm_set_errhandler(process.copy, MPI_ERRORS_RETURN),
                 "MPI_Comm_set_errhandler");
    // Where one rank must not share memory none does: they would set up different things.
    int64_t is_sharing = !p.no_shared_memory;
    CERO_TRY(cero_mpi_min(process.copy, p.timeout_seconds, &is_sharing));
    p.no_shared_memory = is_sharing == 0;
    return cero_mpi_comm_create(process.copy, &p, out);
}

static cero_status check_promise(const launcher *l)
{
    int size;

    CERO_TRY_MPI(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
    CERO_CHECK(
        size >= l->size, CERO_ERR_INVALID,
        "the launcher says that this is one of %ld ranks (%s=%ld), and MPI (%s) sees %d: %ld "
        "jobs would write the same files; start with the mpirun of this MPI, or with srun "
        "--mpi=pmix, or unset %s for a run in one process",
        l->size, l->variable, l->size, cero_comm_mpi_library(), size, l->size / size, l->variable);
    return CERO_OK;
}

cero_status cero_comm_create_world(const cero_comm_params *params, cero_comm **out)
{
    launcher l = find_launcher();
    int is_initialised;

    CERO_TRY(cero_mpi_usable());
    CERO_TRY_MPI(MPI_Initialized(&is_initialised), "MPI_Initialized");
    if (is_alone || (!is_initialised && (!l.is_there || l.size == 1))) {
        return cero_comm_create_self(out);
    }
    CERO_TRY(check_not_finalised());
    cero_status st = is_initialised ? CERO_OK : initialise();
    st = st == CERO_OK ? check_promise(&l) : st;
    st = st == CERO_OK ? create_over(MPI_COMM_WORLD, params, out) : st;
    is_alone = st == CERO_OK && process.is_ours && process.communicators == 0;
    finalise_if_last();
    return st;
}

cero_status cero_comm_create_from(const void *mpi_comm, size_t nbytes,
                                  const cero_comm_params *params, cero_comm **out)
{
    MPI_Comm comm;
    int is_initialised;
    int is_inter;

    CERO_CHECK(nbytes == sizeof(comm), CERO_ERR_INVALID,
               "the caller's MPI_Comm has %zu bytes, that of the MPI this was built with (%s) %zu; "
               "build both with the same MPI",
               nbytes, cero_comm_mpi_library(), sizeof(comm));
    memcpy(&comm, mpi_comm, sizeof(comm));
    CERO_TRY(cero_mpi_usable());
    CERO_TRY_MPI(MPI_Initialized(&is_initialised), "MPI_Initialized");
    CERO_CHECK(is_initialised, CERO_ERR_INVALID,
               "a communicator was given before MPI_Init; call MPI_Init first");
    CERO_TRY(check_not_finalised());
    CERO_CHECK(comm != MPI_COMM_NULL, CERO_ERR_INVALID, "the communicator is MPI_COMM_NULL");
    CERO_TRY_MPI(MPI_Comm_test_inter(comm, &is_inter), "MPI_Comm_test_inter");
    CERO_CHECK(!is_inter, CERO_ERR_INVALID,
               "the communicator is one between two groups; give one of a single group");
    return create_over(comm, params, out);
}

void cero_mpi_abort(int code)
{
    int exit_code = code != 0 ? code : 1;

    // A launcher that is told to end all ranks may drop what it did not read yet: the reason.
    const struct timespec nap = {.tv_nsec = READ_NANOSECONDS};

    cero_process_end_after(ABORT_SECONDS, exit_code);
    (void)fflush(NULL);
    (void)nanosleep(&nap, NULL);
    (void)MPI_Abort(MPI_COMM_WORLD, exit_code);
    cero_process_end(exit_code);
}
