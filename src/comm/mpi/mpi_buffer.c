/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers of the MPI transport: windows of memory that the ranks of a node share. A window that outgrows the
 * file system it is kept in ends the process with a bus error at the first touch, so the space is looked at
 * before, and every page is asked for in a way that can be refused.
 */
#include "comm/mpi/mpi_impl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum {
    MAX_PATH = 4096,
    // What a library adds to a window: Open MPI keeps a twentieth free and has a page for each rank.
    LIBRARY_PART = 16,
    LIBRARY_BYTES = 64 << 10,
    POPULATE_WRITE = 23 /* MADV_POPULATE_WRITE of Linux 5.14; an older kernel answers EINVAL */
};

typedef struct mpi_buffer {
    cero_comm_buffer base;
    MPI_Win window; /* owned; MPI_WIN_NULL: base.data is private, owned */
    void **peer;    /* owned, [node size]: where a rank of this node keeps its part */
    size_t charged;
    cero_mem_category category;
} mpi_buffer;

/* The part of the window that this rank allocates, touches and clears. */
static size_t part_bytes(const cero_comm *comm, const cero_comm_buffer_params *p)
{
    return cero_comm_buffer_bytes(comm, p->nbytes, p->is_one_per_node);
}

/* True when windows are made for this buffer; a rank alone in its node shares with nobody. */
static bool is_shared(const cero_comm *comm)
{
    return comm->has_shared_memory && comm->node_size[comm->node[comm->rank]] > 1;
}

/*
 * The folder in which the library keeps windows: that of the file behind the control page. Empty when it is no
 * file's.
 */
static void find_window_folder(const void *address, char *folder, size_t size)
{
    char line[MAX_PATH + 256];
    unsigned long begin;
    unsigned long end;
    FILE *maps = fopen("/proc/self/maps", "r");

    folder[0] = '\0';
    while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
        const char *path = strchr(line, '/');
        if (path == NULL || sscanf(line, "%lx-%lx", &begin, &end) != 2 ||
            (uintptr_t)address < begin || (uintptr_t)address >= end) {
            continue;
        }
        int length = (int)(strrchr(path, '/') - path);
        (void)snprintf(folder, size, "%.*s", length, path);
        break;
    }
    if (maps != NULL) {
        (void)fclose(maps);
    }
}

/* What every rank asks for, to be summed over a node. */
typedef struct window_request {
    int64_t nbytes; /* of its part */
    int64_t asked;  /* params->nbytes */
} window_request;

static cero_status check_space(cero_comm *comm, const cero_comm_buffer_params *p,
                               const window_request *all)
{
    char folder[MAX_PATH];
    struct statvfs fs;
    int node = comm->node[comm->rank];
    unsigned long long page = (unsigned long long)sysconf(_SC_PAGESIZE);
    unsigned long long sum = 0;

    for (int r = 0; r < comm->size; r++) {
        CERO_CHECK(!p->is_one_per_node || all[r].asked == all[0].asked, CERO_ERR_INVALID,
                   "%s: one copy per node has %lld bytes on rank %d and %lld on rank 0; they must "
                   "be equal",
                   p->what, (long long)all[r].asked, r, (long long)all[0].asked);
        if (comm->node[r] == node) {
            sum +=
                ((unsigned long long)all[r].nbytes + CERO_MEM_ALIGNMENT + page - 1) / page * page;
        }
    }
    sum += sum / LIBRARY_PART + LIBRARY_BYTES + page * (unsigned long long)comm->node_size[node];
    find_window_folder(cero_mpi_of(comm)->own, folder, sizeof(folder));
    if (folder[0] == '\0' || statvfs(folder, &fs) != 0) {
        return CERO_OK;
    }
    unsigned long long room = (unsigned long long)fs.f_bavail * fs.f_frsize;
    CERO_CHECK(sum <= room, CERO_ERR_NOMEM,
               "no shared memory for %s: the ranks of this node need %llu bytes, and %llu are free "
               "in %s; enlarge it (mount -o remount,size=... %s, or docker run --shm-size=...) or "
               "do without (--no-shared-memory)",
               p->what, sum, room, folder, folder);
    return CERO_OK;
}

/* Asks for all pages of [data, data + nbytes), and clears it. */
static cero_status touch(const char *what, char *data, size_t nbytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = (uintptr_t)data / page * page;
    uintptr_t end = ((uintptr_t)data + nbytes + page - 1) / page * page;

    if (nbytes == 0) {
        return CERO_OK;
    }
    // ENOMEM and EFAULT: a page that cannot be had. Anything else: the kernel does not know the call.
    if (madvise(data - ((uintptr_t)data - begin), end - begin, POPULATE_WRITE) != 0 &&
        (errno == ENOMEM || errno == EFAULT)) {
        return CERO_FAIL(
            CERO_ERR_NOMEM,
            "no shared memory for %s: %zu bytes were promised and could not be had (%s); "
            "enlarge /dev/shm or the container's memory",
            what, nbytes, strerror(errno));
    }
    memset(data, 0, nbytes);
    return CERO_OK;
}

/*
 * Allocates the window over the node. Parts lie apart, each local to its rank and page aligned; one per node is
 * a single block, of which each rank brings a piece. A window may begin between two cache lines, and does so
 * alike in all processes (they map whole pages): room for a line is asked for, and addresses are rounded up.
 */
static cero_status allocate(mpi_buffer *b, const cero_comm_buffer_params *p)
{
    cero_comm *comm = b->base.comm;
    cero_mpi *mpi = cero_mpi_of(comm);
    int node = comm->node[comm->rank];
    int local = comm->local_rank[comm->rank];
    bool has_front = !p->is_one_per_node || local == 0;
    size_t nbytes = part_bytes(comm, p) + (has_front ? CERO_MEM_ALIGNMENT : 0);
    MPI_Info info;
    void *own;

    CERO_TRY_MPI(MPI_Info_create(&info), "MPI_Info_create");
    int code = MPI_Info_set(info, "alloc_shared_noncontig", p->is_one_per_node ? "false" : "true");
    if (code == MPI_SUCCESS) {
        code =
            MPI_Win_allocate_shared((MPI_Aint)nbytes, 1, info, mpi->node, (void *)&own, &b->window);
    }
    (void)MPI_Info_free(&info);
    CERO_TRY(cero_mpi_check(code, "allocating shared memory"));
    CERO_TRY_MPI(MPI_Win_set_errhandler(b->window, MPI_ERRORS_RETURN), "MPI_Win_set_errhandler");
    // Loads and stores alone reach the memory; the epoch stays open for as long as the window lives.
    CERO_TRY_MPI(MPI_Win_lock_all(MPI_MODE_NOCHECK, b->window), "MPI_Win_lock_all");
    for (int r = 0; r < comm->node_size[node]; r++) {
        b->peer[r] = cero_mpi_window_at(b->window, p->is_one_per_node ? 0 : r);
        CERO_CHECK(b->peer[r] != NULL, CERO_ERR_COMM, "the memory of local rank %d is not shared",
                   r);
    }
    b->base.data = b->peer[local];
    return CERO_OK;
}

/* Where this rank's part begins in what base.data points to. */
static size_t part_begin(const cero_comm *comm, const cero_comm_buffer_params *p,
                         const window_request *all)
{
    int64_t begin = 0;

    for (int r = 0; r < comm->rank && p->is_one_per_node; r++) {
        begin += comm->node[r] == comm->node[comm->rank] ? all[r].nbytes : 0;
    }
    return (size_t)begin;
}

/* Every rank comes to every agreement: a failure of one is a failure of all. */
static cero_status create_window(mpi_buffer *b, const cero_comm_buffer_params *p,
                                 window_request *all, cero_status st)
{
    cero_comm *comm = b->base.comm;
    window_request mine = {(int64_t)part_bytes(comm, p), (int64_t)p->nbytes};

    CERO_TRY(cero_comm_agree(comm, st));
    CERO_TRY(cero_comm_all_gather(comm, &mine, sizeof(mine), all));
    // A rank alone in its node has nothing to look for; it stays in step with the others.
    bool is_window = is_shared(comm);
    CERO_TRY(cero_comm_agree(comm, is_window ? check_space(comm, p, all) : CERO_OK));
    if (is_window) {
        st = cero_mpi_end(allocate(b, p));
        if (st == CERO_OK) {
            st = touch(p->what, (char *)b->base.data + part_begin(comm, p, all),
                       (size_t)mine.nbytes);
        }
    } else {
        memset(b->base.data, 0, p->nbytes);
    }
    return cero_comm_agree(comm, st);
}

/* What this rank does alone: tables, and the account; private memory where nothing is shared. */
static cero_status prepare(cero_comm *comm, const cero_comm_buffer_params *p, mpi_buffer **out,
                           window_request **all)
{
    mpi_buffer *b = cero_new(1, sizeof(*b));

    *out = b;
    *all = cero_new((size_t)comm->size, sizeof(**all));
    if (b != NULL) {
        b->base = (cero_comm_buffer){.comm = comm,
                                     .mem = p->mem,
                                     .nbytes = p->nbytes,
                                     .is_one_per_node = p->is_one_per_node};
        b->window = MPI_WIN_NULL;
        b->category = p->category;
        b->peer = cero_new((size_t)comm->node_size[comm->node[comm->rank]], sizeof(void *));
    }
    CERO_CHECK(b != NULL && b->peer != NULL && *all != NULL, CERO_ERR_NOMEM,
               "no memory for the buffer of %s", p->what);
    if (!is_shared(comm)) {
        return cero_mem_alloc(p->mem, p->nbytes, p->category, p->what, &b->base.data);
    }
    CERO_TRY(cero_mem_charge(p->mem, part_bytes(comm, p), p->category, p->what));
    b->charged = part_bytes(comm, p);
    return CERO_OK;
}

static void free_buffer(mpi_buffer *b)
{
    if (b == NULL) {
        return;
    }
    if (b->window != MPI_WIN_NULL && !cero_mpi_of(b->base.comm)->is_broken) {
        (void)MPI_Win_unlock_all(b->window);
        (void)MPI_Win_free(&b->window);
        b->base.data = NULL;
    }
    if (b->charged > 0) {
        cero_mem_discharge(b->base.mem, b->charged, b->category);
    }
    if (!is_shared(b->base.comm)) {
        cero_mem_free(b->base.mem, b->base.data);
    }
    cero_delete(b->peer);
    cero_delete(b);
}

cero_status cero_mpi_buffer_create(cero_comm *comm, const cero_comm_buffer_params *params,
                                   cero_comm_buffer **out)
{
    mpi_buffer *b = NULL;
    window_request *all = NULL;
    cero_status st = prepare(comm, params, &b, &all);

    st = all != NULL && b != NULL ? create_window(b, params, all, st) : cero_comm_agree(comm, st);
    cero_delete(all);
    if (st != CERO_OK) {
        free_buffer(b);
        return st;
    }
    *out = &b->base;
    return CERO_OK;
}

/* True when all ranks of the node came here too. */
static bool meet(cero_comm *comm)
{
    cero_mpi *mpi = cero_mpi_of(comm);
    cero_comm_event *event = cero_comm_record(comm, "free buffer", 0);
    MPI_Request request;

    if (cero_mpi_usable() != CERO_OK) {
        return false;
    }
    cero_status st = cero_mpi_check(MPI_Ibarrier(mpi->node, &request), "MPI_Ibarrier");
    if (st == CERO_OK) {
        st = cero_mpi_wait_all(comm, 1, &request, -1, event);
    }
    event->state = 'd';
    return cero_mpi_end(st) == CERO_OK;
}

/*
 * Freeing a window waits for the node without looking at the clock, so its ranks meet first where a failed peer
 * is noticed; after a failure the window stays until the process ends.
 */
void cero_mpi_buffer_destroy(cero_comm_buffer *buffer)
{
    mpi_buffer *b = (mpi_buffer *)buffer;
    cero_comm *comm = buffer->comm;

    if (b->window != MPI_WIN_NULL && !meet(comm)) {
        b->window = MPI_WIN_NULL; // MPI is not called any more
    }
    free_buffer(b);
}

void *cero_mpi_buffer_of(const cero_comm_buffer *buffer, int rank)
{
    const mpi_buffer *b = (const mpi_buffer *)buffer;
    const cero_comm *comm = buffer->comm;

    if (b->window == MPI_WIN_NULL) {
        return rank == comm->rank ? buffer->data : NULL;
    }
    return comm->node[rank] == comm->node[comm->rank] ? b->peer[comm->local_rank[rank]] : NULL;
}
