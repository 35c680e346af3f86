/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What may be found on a disk (disk.h) when the power was lost after its first so many changes.
 *
 * What lasts is there. Of what does not, any part may be: of a folder each change of a name by itself, in whatever
 * order they were made; a rename as a whole, or not at all; of a file's bytes any blocks, and any length between the
 * one that lasts and the last one, with zeros or rubbish where bytes are missing. File systems that order their
 * changes leave a few of these images, none leaves another.
 */
#ifndef CERO_TESTS_CRASH_IMAGE_H
#define CERO_TESTS_CRASH_IMAGE_H

#include "crash/disk.h"

#include "base/rng.h"

#include <fcntl.h>
#include <sys/stat.h>

/* What became of the bytes of one file that do not last. */
typedef enum image_bytes {
    IMAGE_KEPT = 0,
    IMAGE_LOST = 1,  /* and the length with them */
    IMAGE_ZEROS = 2, /* the length is there */
    IMAGE_CUT = 3,   /* the first half of them */
    IMAGE_WAYS = 4,
    IMAGE_TORN = 5 /* drawn by chance */
} image_bytes;

typedef struct image_node {
    int parent; /* -1: nothing leads to it */
    const char *name;
    unsigned char *bytes; /* owned */
    size_t length;
} image_node;

typedef struct image {
    image_node nodes[DISK_MAX_NODES];
    int node_count;
} image;

/* Numbers drawn by chance, the same in every run. */
typedef struct image_chance {
    cero_rng_key key;
    uint64_t at;
} image_chance;

static inline uint32_t image_draw(void *context, uint32_t below)
{
    image_chance *chance = context;

    return cero_rng_word(chance->key, 0, chance->at++) % below;
}

/* What there is to choose after `point` changes. */
typedef struct image_open {
    int point;
    int names[DISK_MAX_CHANGES]; /* changes of names that may be lost */
    int name_count;
    int files[DISK_MAX_NODES]; /* files of which bytes may be lost */
    int file_count;
} image_open;

typedef struct image_choice {
    bool is_kept[DISK_MAX_CHANGES];        /* by open->names */
    image_bytes bytes[DISK_MAX_NODES];     /* by open->files */
    unsigned char is_torn[DISK_MAX_NODES]; /* filler of what is missing: 0 or rubbish */
} image_choice;

static inline void image_look(const disk *d, int point, image_open *out)
{
    bool is_open[DISK_MAX_NODES] = {false};

    out->point = point;
    out->name_count = 0;
    out->file_count = 0;
    for (int i = 0; i < point; i++) {
        const disk_change *c = &d->changes[i];
        if (c->node < 0 || c->lasts_from < point) {
            continue;
        }
        if (disk_is_of_name(c)) {
            out->names[out->name_count++] = i;
        } else if (disk_is_of_bytes(c) && !is_open[c->node]) {
            is_open[c->node] = true;
            out->files[out->file_count++] = c->node;
        }
    }
}

/* Choices that differ in what is wholly there or wholly lost; more than `limit`: limit + 1. */
static inline int64_t image_choices(const image_open *open, int64_t limit)
{
    int64_t count = 1;

    for (int i = 0; i < open->name_count && count <= limit; i++) {
        count *= 2;
    }
    for (int i = 0; i < open->file_count && count <= limit; i++) {
        count *= IMAGE_WAYS;
    }
    return count > limit ? limit + 1 : count;
}

/* Choice `number` of image_choices. */
static inline void image_choose(const image_open *open, int64_t number, image_choice *out)
{
    for (int i = 0; i < open->name_count; i++) {
        out->is_kept[i] = number % 2 == 0;
        number /= 2;
    }
    for (int i = 0; i < open->file_count; i++) {
        out->bytes[i] = (image_bytes)(number % IMAGE_WAYS);
        out->is_torn[i] = 0;
        number /= IMAGE_WAYS;
    }
}

/* A choice by chance: few, half, most or the first of the changes of names; bytes in any way. */
static inline void image_choose_by_chance(const image_open *open, image_chance *chance,
                                          image_choice *out)
{
    static const uint32_t kept_of_eight[] = {1, 4, 7};
    uint32_t way = image_draw(chance, 4);
    uint32_t first = image_draw(chance, (uint32_t)open->name_count + 1);

    for (int i = 0; i < open->name_count; i++) {
        out->is_kept[i] =
            way < 3 ? image_draw(chance, 8) < kept_of_eight[way] : (uint32_t)i < first;
    }
    for (int i = 0; i < open->file_count; i++) {
        uint32_t bytes = image_draw(chance, 8);
        out->bytes[i] = bytes < 3 ? (image_bytes)bytes : IMAGE_TORN;
        out->is_torn[i] = image_draw(chance, 2) == 0 ? 0 : 0xA5;
    }
}

static inline void image_unlink(image *im, int folder, const char *name)
{
    for (int i = 1; i < im->node_count; i++) {
        if (im->nodes[i].parent == folder && strcmp(im->nodes[i].name, name) == 0) {
            im->nodes[i].parent = -1;
        }
    }
}

static inline void image_link(image *im, int folder, const char *name, int node)
{
    image_unlink(im, folder, name);
    im->nodes[node].parent = folder;
    im->nodes[node].name = name;
}

static inline void image_apply_name(image *im, const disk_change *c)
{
    if (c->change == CERO_IO_CREATE || c->change == CERO_IO_MKDIR) {
        image_link(im, c->node, c->name, c->child);
    } else if (c->change == CERO_IO_RENAME) {
        image_link(im, c->node, c->to, c->child);
    } else {
        im->nodes[c->child].parent = -1;
    }
}

/* A file's length after its changes below `point`; only those that last, or all. */
static inline size_t image_length(const disk *d, int node, int point, bool is_all)
{
    size_t length = 0;

    for (int i = 0; i < point; i++) {
        const disk_change *c = &d->changes[i];
        if (c->node != node || !disk_is_of_bytes(c) || (!is_all && c->lasts_from >= point)) {
            continue;
        }
        size_t end = (size_t)c->offset + c->nbytes;
        length = c->change == CERO_IO_TRUNCATE || end > length ? end : length;
    }
    return length;
}

/* Bytes at .. at + n of a change: what is below `cut` and in a block that chance kept. */
static inline void image_write(unsigned char *bytes, size_t length, const disk_change *c,
                               size_t cut, uint32_t block, image_chance *chance)
{
    bool is_kept = true;

    for (size_t i = 0; i < c->nbytes; i++) {
        size_t at = (size_t)c->offset + i;
        if (block > 0 && (i == 0 || at % block == 0)) {
            is_kept = image_draw(chance, 2) == 0;
        }
        if (is_kept && at < cut && at < length) {
            bytes[at] = c->bytes[i];
        }
    }
}

/* What is left of one file's bytes. */
typedef struct image_loss {
    size_t length;
    size_t cut;     /* pending bytes below it are there */
    uint32_t block; /* of which chance keeps some; 0: all */
    unsigned char filler;
} image_loss;

static inline image_loss image_lose(size_t lasting, size_t last, image_bytes way,
                                    unsigned char filler, image_chance *chance)
{
    static const uint32_t blocks[] = {0, 512, 64, 8};
    size_t low = lasting < last ? lasting : last;
    uint32_t span = (uint32_t)(last - low) + 1;

    switch (way) {
    case IMAGE_LOST:
        return (image_loss){.length = lasting};
    case IMAGE_ZEROS:
        return (image_loss){.length = last};
    case IMAGE_CUT:
        return (image_loss){.length = low + span / 2, .cut = low + span / 2};
    case IMAGE_TORN: {
        image_loss loss = {.filler = filler, .block = blocks[image_draw(chance, 4)]};
        loss.cut = low + image_draw(chance, span);
        loss.length = image_draw(chance, 2) == 0 ? loss.cut : low + image_draw(chance, span);
        return loss;
    }
    case IMAGE_KEPT:
    case IMAGE_WAYS:
    default:
        return (image_loss){.length = last, .cut = SIZE_MAX};
    }
}

static inline void image_fill(image *im, const disk *d, int node, int point, const image_loss *loss,
                              image_chance *chance)
{
    image_node *n = &im->nodes[node];
    size_t lasting = image_length(d, node, point, false);

    n->length = loss->length;
    n->bytes = cero_new(n->length + 1, 1);
    assert_non_null(n->bytes);
    memset(n->bytes, 0, n->length + 1);
    if (n->length > lasting) {
        memset(n->bytes + lasting, loss->filler, n->length - lasting);
    }
    for (int i = 0; i < point; i++) {
        const disk_change *c = &d->changes[i];
        if (c->node == node && c->change == CERO_IO_WRITE) {
            bool lasts = c->lasts_from < point;
            image_write(n->bytes, n->length, c, lasts ? SIZE_MAX : loss->cut,
                        lasts ? 0 : loss->block, chance);
        }
    }
}

/* A node that a chain of names leads to. */
static inline bool image_is_there(const image *im, int node)
{
    for (int i = 0; node > 0 && i < DISK_MAX_NODES; i++) {
        node = im->nodes[node].parent;
    }
    return node == 0;
}

/* image_cleanup after. */
static inline void image_make(const disk *d, const image_open *open, const image_choice *choice,
                              image_chance *chance, image *out)
{
    int next = 0;
    int file = 0;

    out->node_count = d->node_count;
    for (int i = 0; i < d->node_count; i++) {
        out->nodes[i] = (image_node){.parent = -1, .name = ""};
    }
    for (int i = 0; i < open->point; i++) {
        bool is_open = next < open->name_count && open->names[next] == i;
        bool is_kept = !is_open || choice->is_kept[next];
        next += is_open ? 1 : 0;
        if (d->changes[i].node >= 0 && is_kept && disk_is_of_name(&d->changes[i])) {
            image_apply_name(out, &d->changes[i]);
        }
    }
    for (int i = 1; i < d->node_count; i++) {
        image_loss loss = {.cut = SIZE_MAX};
        size_t last = image_length(d, i, open->point, true);
        loss.length = last;
        for (file = 0; file < open->file_count; file++) {
            if (open->files[file] == i) {
                loss = image_lose(image_length(d, i, open->point, false), last, choice->bytes[file],
                                  choice->is_torn[file], chance);
            }
        }
        if (!d->nodes[i].is_folder && image_is_there(out, i)) {
            image_fill(out, d, i, open->point, &loss, chance);
        }
    }
}

static inline void image_cleanup(image *im)
{
    for (int i = 0; i < im->node_count; i++) {
        cero_delete(im->nodes[i].bytes);
        im->nodes[i].bytes = NULL;
    }
}

/* FNV-1a, to tell images apart. */
static inline uint64_t image_hash_bytes(uint64_t hash, const void *bytes, size_t n)
{
    const unsigned char *b = bytes;

    for (size_t i = 0; i < n; i++) {
        hash = (hash ^ b[i]) * 0x100000001b3u;
    }
    return hash;
}

static inline uint64_t image_hash(const image *im)
{
    uint64_t hash = 0xcbf29ce484222325u;

    for (int i = 1; i < im->node_count; i++) {
        const image_node *n = &im->nodes[i];
        if (image_is_there(im, i)) {
            int head[2] = {i, n->parent};
            hash = image_hash_bytes(hash, head, sizeof(head));
            hash = image_hash_bytes(hash, n->name, strlen(n->name) + 1);
            hash = image_hash_bytes(hash, &n->length, sizeof(n->length));
            hash = image_hash_bytes(hash, n->bytes, n->length);
        }
    }
    return hash;
}

static inline void image_store_below(const image *im, const disk *d, int folder, const char *path)
{
    char below[PATH_MAX];

    for (int i = 1; i < im->node_count; i++) {
        const image_node *n = &im->nodes[i];
        if (n->parent != folder) {
            continue;
        }
        assert_true((size_t)snprintf(below, sizeof(below), "%s/%s", path, n->name) < sizeof(below));
        if (d->nodes[i].is_folder) {
            assert_int_equal(mkdir(below, 0777), 0);
            image_store_below(im, d, i, below);
            continue;
        }
        int fd = open(below, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, n->bytes, n->length), n->length);
        assert_int_equal(close(fd), 0);
    }
}

/* Makes `path`, which must not be there, into the image. */
static inline void image_store(const image *im, const disk *d, const char *path)
{
    assert_int_equal(mkdir(path, 0777), 0);
    image_store_below(im, d, 0, path);
}

#endif
