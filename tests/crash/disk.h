/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was done to a disk, from the events of base/io.h: which change, to which file or folder, and what made it
 * last.
 *
 * Files and folders are nodes, which names lead to; a change is one of a node: bytes of a file, or a name of a
 * folder. It lasts from the next fsync of that same node on. An fsync of a file says nothing about its name, and one
 * of a folder nothing about what its names lead to. image.h makes of this what may be found after a loss of power.
 */
#ifndef CERO_TESTS_CRASH_DISK_H
#define CERO_TESTS_CRASH_DISK_H

#include "harness.h"

#include "base/io.h"

#include <limits.h>
#include <unistd.h>

enum {
    DISK_MAX_CHANGES = 2048,
    DISK_MAX_NODES = 512,
    DISK_MAX_FDS = 256,
    DISK_MAX_NAME = 128,
    DISK_NEVER = INT_MAX
};

/* One event. fsync and close are kept too: the numbers of changes are those of the events. */
typedef struct disk_change {
    cero_io_change change;
    int node;  /* the file; the folder whose name it is; -1: nothing of ours */
    int child; /* of a name: what it leads to */
    char name[DISK_MAX_NAME];
    char to[DISK_MAX_NAME]; /* RENAME, within the folder */
    int64_t offset;
    size_t nbytes;
    unsigned char *bytes; /* owned */
    int lasts_from;       /* the fsync's number */
} disk_change;

typedef struct disk_node {
    bool is_folder;
    int parent; /* now; -1: removed */
    char name[DISK_MAX_NAME];
} disk_node;

/* Node 0 is the folder that is watched; what is done outside is not seen. */
typedef struct disk {
    char root[PATH_MAX];
    disk_change *changes; /* [count], owned */
    int count;
    disk_node nodes[DISK_MAX_NODES];
    int node_count;
    int fds[DISK_MAX_FDS]; /* node, -1: none */
    const char *trouble;   /* what cannot be modelled: the first found */
} disk;

/* The node that a name of a folder leads to, -1: none. */
static inline int disk_child(const disk *d, int folder, const char *name)
{
    for (int i = 1; i < d->node_count; i++) {
        if (d->nodes[i].parent == folder && strcmp(d->nodes[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

/*
 * The folder that holds the last name of a path, and that name: false outside of the root. The root itself has
 * folder -1.
 */
static inline bool disk_look(disk *d, const char *path, int *folder, char name[DISK_MAX_NAME])
{
    size_t length = strlen(d->root);
    char rest[PATH_MAX];
    char *place = NULL;

    if (strncmp(path, d->root, length) != 0 || (path[length] != '/' && path[length] != '\0')) {
        return false;
    }
    (void)snprintf(rest, sizeof(rest), "%s", path + length);
    *folder = -1;
    int at = 0;
    for (char *word = strtok_r(rest, "/", &place); word != NULL;
         word = strtok_r(NULL, "/", &place)) {
        if (at < 0 || strlen(word) >= DISK_MAX_NAME) {
            d->trouble = "a path through a folder that is not there";
            return false;
        }
        *folder = at;
        (void)snprintf(name, DISK_MAX_NAME, "%s", word);
        at = disk_child(d, at, word);
    }
    return true;
}

/* What a path leads to, -1: nothing. */
static inline int disk_find(disk *d, const char *path)
{
    char name[DISK_MAX_NAME];
    int folder;

    if (!disk_look(d, path, &folder, name)) {
        return -1;
    }
    return folder < 0 ? 0 : disk_child(d, folder, name);
}

static inline int disk_node_add(disk *d, bool is_folder, int parent, const char *name)
{
    if (d->node_count == DISK_MAX_NODES) {
        d->trouble = "too many nodes";
        return 0;
    }
    d->nodes[d->node_count] = (disk_node){.is_folder = is_folder, .parent = parent};
    (void)snprintf(d->nodes[d->node_count].name, DISK_MAX_NAME, "%s", name);
    return d->node_count++;
}

/* The node of a descriptor: one that was opened under our eyes, or whatever the system says it is. */
static inline int disk_of_fd(disk *d, int fd)
{
    char link[64];
    char path[PATH_MAX];

    if (fd < 0 || fd >= DISK_MAX_FDS) {
        return -1;
    }
    if (d->fds[fd] < 0) {
        (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        ssize_t length = readlink(link, path, sizeof(path) - 1);
        if (length > 0) {
            path[length] = '\0';
            d->fds[fd] = disk_find(d, path);
        }
    }
    return d->fds[fd];
}

/* All changes of a node so far last from now on. */
static inline void disk_sync(disk *d, int node, int now)
{
    for (int i = 0; i < now; i++) {
        disk_change *c = &d->changes[i];
        if (c->node == node && c->lasts_from == DISK_NEVER) {
            c->lasts_from = now;
        }
    }
}

static inline void disk_add_name(disk *d, disk_change *c, const char *path, bool is_folder)
{
    if (disk_look(d, path, &c->node, c->name)) {
        c->child = disk_node_add(d, is_folder, c->node, c->name);
    }
}

static inline void disk_remove_name(disk *d, disk_change *c, const char *path)
{
    if (disk_look(d, path, &c->node, c->name)) {
        c->child = disk_child(d, c->node, c->name);
        if (c->child < 0) {
            d->trouble = "something was removed that nobody made";
            return;
        }
        d->nodes[c->child].parent = -1;
    }
}

static inline void disk_rename(disk *d, disk_change *c, const char *from, const char *to)
{
    int folder = -1;

    if (!disk_look(d, from, &c->node, c->name) || !disk_look(d, to, &folder, c->to) ||
        folder != c->node) {
        d->trouble = "a rename from one folder into another";
        return;
    }
    int replaced = disk_child(d, folder, c->to);
    c->child = disk_child(d, folder, c->name);
    if (c->child < 0) {
        d->trouble = "something was renamed that nobody made";
        return;
    }
    if (replaced >= 0) {
        d->nodes[replaced].parent = -1;
    }
    (void)snprintf(d->nodes[c->child].name, DISK_MAX_NAME, "%s", c->to);
}

static inline void disk_record(disk *d, disk_change *c, const cero_io_event *event)
{
    switch (event->change) {
    case CERO_IO_CREATE:
        disk_add_name(d, c, event->path, false);
        if (event->fd >= 0 && event->fd < DISK_MAX_FDS) {
            d->fds[event->fd] = c->child;
        }
        break;
    case CERO_IO_MKDIR:
        disk_add_name(d, c, event->path, true);
        break;
    case CERO_IO_WRITE:
        c->node = disk_of_fd(d, event->fd);
        c->bytes = cero_new(event->nbytes, 1);
        if (c->bytes == NULL) {
            d->trouble = "no memory";
            c->node = -1;
            break;
        }
        memcpy(c->bytes, event->bytes, event->nbytes);
        break;
    case CERO_IO_TRUNCATE:
        c->node = disk_of_fd(d, event->fd);
        break;
    case CERO_IO_FSYNC:
        c->node = event->path != NULL ? disk_find(d, event->path) : disk_of_fd(d, event->fd);
        disk_sync(d, c->node, d->count);
        break;
    case CERO_IO_CLOSE:
        if (event->fd >= 0 && event->fd < DISK_MAX_FDS) {
            d->fds[event->fd] = -1;
        }
        break;
    case CERO_IO_RENAME:
        disk_rename(d, c, event->path, event->to);
        break;
    case CERO_IO_UNLINK:
    case CERO_IO_RMDIR:
        disk_remove_name(d, c, event->path);
        break;
    default:
        d->trouble = "a change of an unknown kind";
    }
}

/* The observer. Runs under the lock of base/io.c: it asserts nothing. */
static inline void disk_see(void *context, const cero_io_event *event)
{
    disk *d = context;

    if (d->count == DISK_MAX_CHANGES) {
        d->trouble = "too many changes";
        return;
    }
    disk_change *c = &d->changes[d->count];
    *c = (disk_change){.change = event->change,
                       .node = -1,
                       .child = -1,
                       .offset = event->offset,
                       .nbytes = event->nbytes,
                       .lasts_from = DISK_NEVER};
    disk_record(d, c, event);
    d->count++;
}

/* An empty disk with a folder; disk_end before it is cleaned up. */
static inline void disk_begin(disk *d, const char *root)
{
    memset(d, 0, sizeof(*d));
    (void)snprintf(d->root, sizeof(d->root), "%s", root);
    d->changes = cero_new(DISK_MAX_CHANGES, sizeof(*d->changes));
    assert_non_null(d->changes);
    for (int i = 0; i < DISK_MAX_FDS; i++) {
        d->fds[i] = -1;
    }
    (void)disk_node_add(d, true, -1, "");
    cero_io_observe(disk_see, d);
}

static inline void disk_end(disk *d)
{
    cero_io_observe(NULL, NULL);
    if (d->trouble != NULL) {
        fail_msg("the disk cannot be modelled: %s", d->trouble);
    }
}

static inline void disk_cleanup(disk *d)
{
    for (int i = 0; i < d->count; i++) {
        cero_delete(d->changes[i].bytes);
    }
    cero_delete(d->changes);
    d->changes = NULL;
}

static inline bool disk_is_of_name(const disk_change *c)
{
    return c->change == CERO_IO_CREATE || c->change == CERO_IO_MKDIR ||
           c->change == CERO_IO_RENAME || c->change == CERO_IO_UNLINK || c->change == CERO_IO_RMDIR;
}

static inline bool disk_is_of_bytes(const disk_change *c)
{
    return c->change == CERO_IO_WRITE || c->change == CERO_IO_TRUNCATE;
}

/* What the changes last from when the fsyncs that `is_left_out` names had not been. */
static inline void disk_settle(disk *d, bool (*is_left_out)(const disk *d, int i, int which),
                               int which)
{
    for (int i = 0; i < d->count; i++) {
        d->changes[i].lasts_from = DISK_NEVER;
    }
    for (int i = 0; i < d->count; i++) {
        const disk_change *c = &d->changes[i];
        if (c->change == CERO_IO_FSYNC && c->node >= 0 &&
            (is_left_out == NULL || !is_left_out(d, i, which))) {
            disk_sync(d, c->node, i);
        }
    }
}

/* The rank's file that a change is about, -1: none. */
static inline int disk_stream(const disk *d, const disk_change *c)
{
    int node = c->change == CERO_IO_CREATE ? c->child : c->node;
    bool is_stream =
        node > 0 && strncmp(d->nodes[node].name, "rank-", 5) == 0 &&
        (c->change == CERO_IO_CREATE || c->change == CERO_IO_FSYNC || disk_is_of_bytes(c));

    return is_stream ? node : -1;
}

/*
 * Changes begin .. end as if the ranks had written their files at the same time: in another order, by chance, that
 * leaves those of each file in theirs.
 */
static inline void disk_interleave(disk *d, int begin, int end, uint32_t (*draw)(void *, uint32_t),
                                   void *chance)
{
    disk_change *mixed = cero_new((size_t)(end - begin) + 1, sizeof(*mixed));
    bool is_taken[DISK_MAX_CHANGES] = {false};

    assert_non_null(mixed);
    for (int i = begin; i < end; i++) {
        int first[DISK_MAX_NODES]; // of each file, the first change that is left
        uint32_t count = 0;
        mixed[i - begin] = d->changes[i];
        if (disk_stream(d, &d->changes[i]) < 0) {
            continue;
        }
        for (int k = begin; k < end; k++) {
            int stream = is_taken[k] ? -1 : disk_stream(d, &d->changes[k]);
            uint32_t known = 0;
            while (stream >= 0 && known < count &&
                   disk_stream(d, &d->changes[first[known]]) != stream) {
                known++;
            }
            if (stream >= 0 && known == count) {
                first[count++] = k;
            }
        }
        int next = first[draw(chance, count)];
        is_taken[next] = true;
        mixed[i - begin] = d->changes[next];
    }
    memcpy(d->changes + begin, mixed, (size_t)(end - begin) * sizeof(*mixed));
    cero_delete(mixed);
}

#endif
