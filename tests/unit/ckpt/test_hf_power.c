/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Power may be lost at any change of an export over a model: of what was not brought to the disk by then, any part
 * may be there. Each such image holds the old model or the new one, or is refused and gives the old one back; after
 * the export it is the new one. Where folders are not brought to the disk there are images that are neither, so this
 * test can fail.
 *
 * A change of a name lasts when all folders it is about were synced after it; a rename is one change, also between
 * two folders. Bytes of a file last from its own sync on.
 */
#include "unit/ckpt/hf_versions.h"

#include "base/io.h"
#include "base/log.h"
#include "ckpt/staging.h"

enum {
    MAX_NODES = 256,
    MAX_CHANGES = 1024,
    MAX_NAMES = 128,
    MAX_NAME = 96,
    NEVER = 1 << 30,
    DRAWS = 6 /* images of each instant, besides the two extremes */
};

/* What a name leads to. */
typedef enum leads {
    NOTHING = -1,
    FOLDER = -2
} leads;

/* A file; its bytes are all that was ever written. */
typedef struct node {
    unsigned char *bytes;
    size_t nbytes;
    int lasts_from; /* event */
} node;

/* One name gets another meaning; a rename has two. */
typedef struct rename_part {
    char name[MAX_NAME];
    int to; /* node or leads */
    bool is_synced;
} rename_part;

typedef struct change {
    rename_part part[2];
    int parts;
    int made_at;
    int lasts_from;
} change;

/* Names of the directory, at the beginning and while an image is made. */
typedef struct names {
    char name[MAX_NAMES][MAX_NAME];
    int to[MAX_NAMES];
    int count;
} names;

static char model[96];
static node nodes[MAX_NODES];
static int node_count;
static change changes[MAX_CHANGES];
static int change_count;
static int events;
static names before;  /* the export */
static names current; /* while it is recorded */
static int open_node[1024];
static bool folders_last; /* false: fsync of folders is left out */

static int setup(void **state)
{
    (void)state;
    files_make_dir(dir, sizeof(dir));
    make_tokenizers();
    (void)snprintf(model, sizeof(model), "%s/model", dir);
    cero_log_set_level(CERO_LOG_ERROR);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    files_remove(dir);
    return 0;
}

/* The path below the model's directory; NULL outside of it. "" is the directory. */
static const char *below(const char *path)
{
    size_t n = strlen(model);

    if (strncmp(path, model, n) != 0 || (path[n] != '/' && path[n] != '\0')) {
        return NULL;
    }
    return path[n] == '/' ? path + n + 1 : path + n;
}

static int names_get(const names *all, const char *name)
{
    for (int i = 0; i < all->count; i++) {
        if (strcmp(all->name[i], name) == 0) {
            return all->to[i];
        }
    }
    return NOTHING;
}

static void names_set(names *all, const char *name, int to)
{
    int i = 0;

    while (i < all->count && strcmp(all->name[i], name) != 0) {
        i++;
    }
    assert_true(i < MAX_NAMES && strlen(name) < MAX_NAME);
    (void)snprintf(all->name[i], MAX_NAME, "%s", name);
    all->to[i] = to;
    all->count += i == all->count;
}

static bool is_in(const char *name, const char *folder)
{
    size_t n = strlen(folder);
    const char *rest = n == 0 ? name : name + n + 1;

    return (n == 0 || (strncmp(name, folder, n) == 0 && name[n] == '/')) &&
           strchr(rest, '/') == NULL;
}

static int add_node(void)
{
    assert_true(node_count < MAX_NODES);
    nodes[node_count] = (node){.lasts_from = NEVER};
    return node_count++;
}

static void append_bytes(node *n, int64_t offset, const void *bytes, size_t nbytes)
{
    assert_int_equal(offset, n->nbytes);
    n->bytes = cero_renew(n->bytes, n->nbytes + nbytes + 1, 1);
    assert_non_null(n->bytes);
    memcpy(n->bytes + n->nbytes, bytes, nbytes);
    n->nbytes += nbytes;
}

/* `from` NULL: one name changes. */
static void add_change(const char *from, const char *name, int to)
{
    assert_true(change_count < MAX_CHANGES);
    change *c = &changes[change_count++];

    *c = (change){.parts = from == NULL ? 1 : 2, .made_at = events, .lasts_from = NEVER};
    (void)snprintf(c->part[0].name, MAX_NAME, "%s", name);
    c->part[0].to = to;
    names_set(&current, name, to);
    if (from != NULL) {
        (void)snprintf(c->part[1].name, MAX_NAME, "%s", from);
        c->part[1].to = NOTHING;
        names_set(&current, from, NOTHING);
    }
}

static void sync_folder(const char *folder)
{
    for (int i = 0; i < change_count && folders_last; i++) {
        change *c = &changes[i];
        bool is_synced = true;
        for (int k = 0; k < c->parts; k++) {
            c->part[k].is_synced = c->part[k].is_synced || is_in(c->part[k].name, folder);
            is_synced = is_synced && c->part[k].is_synced;
        }
        c->lasts_from = is_synced && c->lasts_from == NEVER ? events : c->lasts_from;
    }
}

static void record(void *context, const cero_io_event *e)
{
    const char *name = e->path == NULL ? NULL : below(e->path);

    (void)context;
    if (e->fd >= 0 && e->change != CERO_IO_CREATE) {
        int n = open_node[e->fd];
        if (n == NOTHING) {
            return;
        }
        events++;
        if (e->change == CERO_IO_WRITE) {
            append_bytes(&nodes[n], e->offset, e->bytes, e->nbytes);
        } else if (e->change == CERO_IO_FSYNC) {
            nodes[n].lasts_from = events;
        } else if (e->change == CERO_IO_CLOSE) {
            open_node[e->fd] = NOTHING;
        }
        return;
    }
    if (name == NULL) {
        return;
    }
    events++;
    switch (e->change) {
    case CERO_IO_CREATE:
        assert_in_range(e->fd, 0, 1023);
        open_node[e->fd] = add_node();
        add_change(NULL, name, open_node[e->fd]);
        break;
    case CERO_IO_RENAME:
        add_change(name, below(e->to), names_get(&current, name));
        break;
    case CERO_IO_MKDIR:
        add_change(NULL, name, FOLDER);
        break;
    case CERO_IO_UNLINK:
    case CERO_IO_RMDIR:
        add_change(NULL, name, NOTHING);
        break;
    case CERO_IO_FSYNC:
        sync_folder(name);
        break;
    case CERO_IO_WRITE:
    case CERO_IO_TRUNCATE:
    case CERO_IO_CLOSE:
    default:
        fail_msg("an event that is not expected");
    }
}

static void forget(void)
{
    for (int i = 0; i < node_count; i++) {
        cero_delete(nodes[i].bytes);
    }
    node_count = 0;
    change_count = 0;
    events = 0;
    before.count = 0;
    for (int i = 0; i < 1024; i++) {
        open_node[i] = NOTHING;
    }
}

/* The old model, all of it on the disk, and the record of the export over it. */
static void play(int64_t old_shard, int64_t new_shard)
{
    cero_file_list list = {0};

    forget();
    if (cero_file_stat(model, NULL) == CERO_FILE_DIRECTORY) {
        files_remove(model);
    }
    assert_ok(export_version(model, FIRST, old_shard));
    assert_ok(cero_file_list_dir(model, true, &list));
    for (int64_t i = 0; i < list.count; i++) {
        char *bytes = NULL;
        size_t n = 0;
        int at = add_node();
        assert_ok(cero_file_read(list.path[i], 0, &bytes, &n));
        append_bytes(&nodes[at], 0, bytes, n);
        nodes[at].lasts_from = 0;
        names_set(&before, below(list.path[i]), at);
        cero_delete(bytes);
    }
    cero_file_list_cleanup(&list);
    current = before;
    cero_io_observe(record, NULL);
    cero_status st = export_version(model, SECOND, new_shard);
    cero_io_observe(NULL, NULL);
    assert_ok(st);
    assert_true(events > 50);
}

/* True when the folder that a name stands in is there itself. */
static bool has_parent(const names *all, const char *name)
{
    char folder[MAX_NAME];

    (void)snprintf(folder, sizeof(folder), "%s", name);
    char *slash = strrchr(folder, '/');
    if (slash == NULL) {
        return true;
    }
    *slash = '\0';
    return names_get(all, folder) == FOLDER && has_parent(all, folder);
}

/* What is found after a loss of power at an event; `draw` 0: nothing that need not be, 1: all of it. */
static void make_image(const char *where, int at, int draw)
{
    static names image;
    cero_rng_key key = cero_rng_make_key(5, CERO_RNG_TEST, (uint64_t)at, (uint64_t)draw);
    uint64_t turn = 0;

    image = before;
    for (int i = 0; i < change_count && changes[i].made_at <= at; i++) {
        bool is_there = draw == 1 || (draw > 1 && cero_rng_word(key, 0, turn++) % 2 == 0);
        for (int k = 0; k < changes[i].parts && (is_there || changes[i].lasts_from <= at); k++) {
            names_set(&image, changes[i].part[k].name, changes[i].part[k].to);
        }
    }
    if (cero_file_stat(where, NULL) == CERO_FILE_DIRECTORY) {
        files_remove(where);
    }
    assert_ok(cero_file_make_dir(where));
    for (int i = 0; i < image.count; i++) {
        if (image.to[i] == FOLDER && has_parent(&image, image.name[i])) {
            assert_ok(cero_file_make_dir(files_in(where, image.name[i])));
        }
    }
    for (int i = 0; i < image.count; i++) {
        if (image.to[i] >= 0 && has_parent(&image, image.name[i])) {
            const node *n = &nodes[image.to[i]];
            size_t length = n->lasts_from <= at || draw == 1
                                ? n->nbytes
                                : cero_rng_word(key, 1, turn++) % (n->nbytes + 1);
            files_write(files_in(where, image.name[i]), n->bytes, length);
        }
    }
}

/* Images by what was found in them. */
typedef struct tally {
    int found[MIXED + 1];
    int lost; /* the export had returned, or what was refused did not come back */
} tally;

static void lose_power(tally *t, int at, int draw)
{
    char where[96];
    cero_staging *staging = NULL;

    (void)snprintf(where, sizeof(where), "%s/image", dir);
    make_image(where, at, draw);
    int found = look(where);
    t->found[found]++;
    t->lost += at == events && found != SECOND;
    if (found == REFUSED) {
        bool is_back = cero_staging_begin(where, &staging) == CERO_OK;
        cero_staging_end(&staging);
        t->lost += !is_back || look(where) != FIRST;
    }
}

static tally lose_power_everywhere(void)
{
    tally t = {0};

    for (int at = 0; at <= events; at++) {
        for (int draw = 0; draw < DRAWS + 2; draw++) {
            lose_power(&t, at, draw);
        }
    }
    return t;
}

static const struct {
    int64_t old_shard;
    int64_t new_shard;
} scenes[] = {{0, 0}, {7000, 7000}, {7000, 12000}, {0, 7000}};

static void test_power_loss(void **state)
{
    int images = 0;

    (void)state;
    folders_last = true;
    for (size_t i = 0; i < CERO_COUNT_OF(scenes); i++) {
        play(scenes[i].old_shard, scenes[i].new_shard);
        tally t = lose_power_everywhere();
        assert_int_equal(t.found[MIXED], 0);
        assert_int_equal(t.found[NONE], 0);
        assert_int_equal(t.lost, 0);
        assert_true(t.found[FIRST] > 100 && t.found[SECOND] > 10 && t.found[REFUSED] > 10);
        images += t.found[FIRST] + t.found[SECOND] + t.found[REFUSED];
    }
    print_message("%d images\n", images);
    forget();
}

static void test_folders_need_sync(void **state)
{
    (void)state;
    folders_last = false;
    play(scenes[1].old_shard, scenes[1].new_shard);
    tally t = lose_power_everywhere();
    assert_true(t.found[MIXED] > 0);
    assert_true(t.lost > 0);
    forget();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_power_loss, setup, teardown),
        cmocka_unit_test_setup_teardown(test_folders_need_sync, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
