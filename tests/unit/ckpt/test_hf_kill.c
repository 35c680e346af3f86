/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An export over a model may be killed at any call that changes a file: the directory then holds the old model
 * or the new one, weights, config and tokenizer of one and the same, or it is refused; what comes next, killed as
 * often, gives the old model back, and the export after it is as if nothing had been.
 */
#include "unit/ckpt/hf_versions.h"

#include "base/log.h"
#include "ckpt/staging.h"

#include <signal.h>
#include <sys/wait.h>

enum {
    MAX_CALLS = 5000
};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool is_sanitized = true; // where a new process costs ten times as much
#else
static const bool is_sanitized = false;
#endif

static int setup(void **state)
{
    (void)state;
    files_make_dir(dir, sizeof(dir));
    cero_log_set_level(CERO_LOG_ERROR);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    files_remove(dir);
    return 0;
}

/* A reader that knows no journal finds no config.json, or the whole of one model. */
static void look_as_others_do(const char *to)
{
    const char *journal = files_in(to, ".cero-export/journal");
    const char *aside = files_in(to, ".cero-export/aside");

    if (cero_file_stat(files_in(to, "config.json"), NULL) == CERO_FILE_ABSENT) {
        return;
    }
    assert_int_equal(rename(journal, aside), 0);
    assert_in_range(look(to), FIRST, SECOND);
    assert_int_equal(rename(aside, journal), 0);
}

/* Runs `work` in a process that is killed at change n; true if it was. */
static bool killed_at(int n, void (*work)(const char *to, int64_t shard), const char *to,
                      int64_t shard)
{
    char fault[32];
    int status = 0;

    (void)snprintf(fault, sizeof(fault), "io:%d:SIGKILL", n);
    (void)fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setenv("CERO_FAULT", fault, 1);
        work(to, shard);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status)) {
        assert_int_equal(WEXITSTATUS(status), 0);
        return false;
    }
    assert_int_equal(WTERMSIG(status), SIGKILL);
    return true;
}

static void export_second(const char *to, int64_t shard)
{
    if (export_version(to, SECOND, shard) != CERO_OK) {
        _exit(1);
    }
}

/* What the next export begins with, and nothing more. */
static void recover(const char *to, int64_t shard)
{
    cero_staging *staging = NULL;

    (void)shard;
    if (cero_staging_begin(to, &staging) != CERO_OK) {
        _exit(1);
    }
    cero_staging_end(&staging);
}

static void remove_model(const char *to)
{
    if (cero_file_stat(to, NULL) == CERO_FILE_DIRECTORY) {
        files_remove(to);
    }
}

/* Names and bytes of all that stands there. */
static uint64_t fingerprint(const char *to)
{
    cero_file_list list = {0};
    uint64_t hash = 17;

    assert_int_equal(cero_file_stat(files_in(to, ".cero-export"), NULL), CERO_FILE_ABSENT);
    assert_ok(cero_file_list_dir(to, true, &list));
    for (int64_t i = 0; i < list.count; i++) {
        char *bytes = NULL;
        size_t n = 0;
        assert_ok(cero_file_read(list.path[i], 0, &bytes, &n));
        hash = hash * 31 + cero_rng_hash(list.path[i]);
        for (size_t k = 0; k < n; k++) {
            hash = (hash ^ (unsigned char)bytes[k]) * 0x100000001B3u;
        }
        cero_delete(bytes);
    }
    cero_file_list_cleanup(&list);
    return hash;
}

/* The old model, in one file, in shards, or none; over it the new one. */
typedef struct scenario {
    bool has_old;
    int64_t old_shard;
    int64_t new_shard;
} scenario;

static uint64_t prepare(const scenario *s, const char *to)
{
    remove_model(to);
    if (s->has_old) {
        assert_ok(export_version(to, FIRST, s->old_shard));
        return fingerprint(to);
    }
    return 0;
}

/* One kill and all that can follow it; how many kills it took. */
static int check_kill(const scenario *s, const char *to, uint64_t before, uint64_t after)
{
    int found = look(to);
    int old = s->has_old ? FIRST : NONE;
    int kills = 1;

    assert_true(found == old || found == SECOND || found == REFUSED);
    if (found == REFUSED) {
        look_as_others_do(to);
    }
    // Where nothing has to be put back, one kill of the sweep stands for all.
    for (int m = 1; (found == REFUSED || m == 1) && killed_at(m, recover, to, 0); m++, kills++) {
        int now = look(to);
        assert_true(now == found || (found == REFUSED && now == old));
        if (now == REFUSED) {
            look_as_others_do(to);
        }
        assert_true(m < MAX_CALLS);
    }
    assert_false(killed_at(MAX_CALLS, recover, to, 0));
    int now = cero_file_stat(to, NULL) == CERO_FILE_ABSENT ? NONE : look(to);
    assert_int_equal(now, found == REFUSED ? old : found);
    if (now != NONE) {
        assert_true(fingerprint(to) == (now == FIRST ? before : after));
    }
    assert_ok(export_version(to, SECOND, s->new_shard));
    assert_true(fingerprint(to) == after);
    return kills;
}

static void test_every_kill(void **state)
{
    static const scenario scenarios[] = {
        {false, 0, 7000},
        {true, 0, 7000},
        {true, 7000, 7000},
        {true, 7000, 0},
    };
    int kills = 0;
    int seen[4] = {0};

    (void)state;
    make_tokenizers();
    if (is_sanitized) {
        print_message("with a sanitizer: two of %zu scenarios\n", CERO_COUNT_OF(scenarios));
    }
    for (size_t i = 0; i < CERO_COUNT_OF(scenarios); i += is_sanitized ? 2 : 1) {
        char to[96];
        (void)snprintf(to, sizeof(to), "%s/model", dir);
        (void)prepare(&scenarios[i], to);
        assert_ok(export_version(to, SECOND, scenarios[i].new_shard));
        uint64_t after = fingerprint(to);
        for (int n = 1;; n++) {
            uint64_t before = prepare(&scenarios[i], to);
            if (!killed_at(n, export_second, to, scenarios[i].new_shard)) {
                assert_int_equal(look(to), SECOND);
                assert_true(fingerprint(to) == after);
                assert_true(n > 10);
                break;
            }
            seen[cero_file_stat(to, NULL) == CERO_FILE_ABSENT ? NONE : look(to)]++;
            kills += check_kill(&scenarios[i], to, before, after);
        }
    }
    for (int i = NONE; i <= REFUSED; i++) {
        assert_true(seen[i] > 0);
    }
    print_message("%d kills: %d found nothing, %d the old model, %d the new one, %d were refused\n",
                  kills, seen[NONE], seen[FIRST], seen[SECOND], seen[REFUSED]);
}

/* Who exports while another does is told so; the one that is first goes on. */
static void test_two_exports(void **state)
{
    cero_staging *first = NULL;
    cero_staging *second = NULL;
    cero_model_spec g = models_gpt2();

    (void)state;
    assert_ok(cero_staging_begin(dir, &first));
    assert_fails(cero_staging_begin(dir, &second), CERO_ERR_IO, "another export into");
    assert_null(second);
    assert_fails(
        cero_hf_export(dir, &(cero_hf_export_params){.spec = &g, .source = models_values}, NULL),
        CERO_ERR_IO, "is under way");
    assert_int_equal(cero_file_stat(cero_staging_path(first), NULL), CERO_FILE_DIRECTORY);
    files_write(files_in(cero_staging_path(first), "a"), "x", 1);
    assert_ok(cero_staging_add(first, "a"));
    assert_ok(cero_staging_commit(first));
    cero_staging_end(&first);
    assert_int_equal(cero_file_stat(files_in(dir, "a"), NULL), CERO_FILE_REGULAR);
    assert_ok(cero_staging_begin(dir, &second));
    cero_staging_end(&second);
}

/* A journal that no export wrote moves and removes nothing. */
static void test_foreign_journals(void **state)
{
    static const char *const journals[] = {
        "",
        "end\n",
        "cero export 2\nend\n",
        "cero export 1\n",
        "cero export 1\nnone mine\n",
        "cero export 1\nnone ../mine\nend\n",
        "cero export 1\nnone /tmp\nend\n",
        "cero export 1\nwas ..\nend\n",
        "cero export 1\nwas \nend\n",
        "cero export 1\nmine\nend\n",
        "cero export 1\nend\nnone mine\n",
    };
    cero_staging *staging = NULL;
    const char *folder = files_in(dir, "model/.cero-export");
    const char *journal = files_in(folder, "journal");

    (void)state;
    assert_ok(cero_file_make_dir(files_in(folder, "old")));
    files_write(files_in(dir, "mine"), "x", 1);
    files_write(files_in(dir, "model/mine"), "x", 1);
    for (size_t i = 0; i < CERO_COUNT_OF(journals); i++) {
        files_write(journal, journals[i], strlen(journals[i]));
        cero_status st = cero_staging_begin(files_in(dir, "model"), &staging);
        if (st != CERO_ERR_CORRUPT && st != CERO_ERR_INVALID) {
            fail_msg("journal %zu gave %s", i, cero_status_name(st));
        }
        assert_null(staging);
        assert_int_equal(cero_file_stat(journal, NULL), CERO_FILE_REGULAR);
        assert_int_equal(cero_file_stat(files_in(dir, "mine"), NULL), CERO_FILE_REGULAR);
        assert_int_equal(cero_file_stat(files_in(dir, "model/mine"), NULL), CERO_FILE_REGULAR);
    }
    // "old" is a link to a folder with a file of that name.
    assert_int_equal(rmdir(files_in(folder, "old")), 0);
    assert_int_equal(symlink(dir, files_in(folder, "old")), 0);
    files_write(journal, "cero export 1\nwas mine\nend\n", 27);
    assert_fails(cero_staging_begin(files_in(dir, "model"), &staging), CERO_ERR_CORRUPT,
                 "should be a folder");
    assert_int_equal(cero_file_stat(files_in(dir, "mine"), NULL), CERO_FILE_REGULAR);
    assert_int_equal(unlink(journal), 0);
    assert_ok(cero_staging_begin(files_in(dir, "model"), &staging));
    cero_staging_end(&staging);
    assert_int_equal(cero_file_stat(files_in(dir, "mine"), NULL), CERO_FILE_REGULAR);
}

/* What an earlier export left in "old" and cannot be removed must not be taken for a file of this one. */
static void test_leftovers_that_stay(void **state)
{
    cero_staging *staging = NULL;
    const char *old = files_in(dir, ".cero-export/old");

    (void)state;
    assert_ok(cero_file_make_dir(old));
    files_write(files_in(old, "config.json"), "stale", 5);
    setenv("CERO_FAULT", "unlink:1:EPERM", 1);
    assert_fails(cero_staging_begin(dir, &staging), CERO_ERR_IO, "an earlier export left");
    unsetenv("CERO_FAULT");
    assert_ok(cero_staging_begin(dir, &staging));
    assert_int_equal(cero_file_stat(files_in(old, "config.json"), NULL), CERO_FILE_ABSENT);
    cero_staging_end(&staging);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_kill, setup, teardown),
        cmocka_unit_test_setup_teardown(test_two_exports, setup, teardown),
        cmocka_unit_test_setup_teardown(test_foreign_journals, setup, teardown),
        cmocka_unit_test_setup_teardown(test_leftovers_that_stay, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
