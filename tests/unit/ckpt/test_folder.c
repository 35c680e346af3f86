/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A checkpoint appears whole or not at all, whichever call fails or is the last one; what was there before stays;
 * only leftovers with our names are swept; the newest of a run stay, by step; one process at a time writes.
 */
#include "files.h"

#include "base/io.h"
#include "base/log.h"
#include "ckpt/checkpoint/folder.h"
#include "ckpt/checkpoint/rank_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#define RUN   "11111111111111111111111111111111"
#define OTHER "22222222222222222222222222222222"

static char dir[64];

static int make_dir(void **state)
{
    CERO_UNUSED(state);
    files_make_dir(dir, sizeof(dir));
    return 0;
}

static int remove_dir(void **state)
{
    CERO_UNUSED(state);
    (void)unsetenv("CERO_FAULT");
    cero_io_observe(NULL, NULL);
    files_remove(dir);
    return 0;
}

static cero_status give(void *context, int64_t range, int64_t begin, int64_t n, float *room,
                        const float **out)
{
    CERO_UNUSED(range);
    for (int64_t i = 0; i < n; i++) {
        room[i] = (float)(*(int64_t *)context + begin + i);
    }
    *out = room;
    return CERO_OK;
}

/* The manifest of what `file` wrote. */
static cero_status make_manifest(const cero_rank_file *file, const cero_rank_file_tensor *tensor,
                                 const char *run, const char *id, int64_t step, cero_text *out)
{
    cero_text pack = {0};
    cero_manifest m = {.step = step, .mesh = {1, 1, 1, 1, 1, 0}};

    CERO_TRY(cero_rank_file_pack(file, &pack));
    (void)snprintf(m.id, sizeof(m.id), "%s", id);
    (void)snprintf(m.run, sizeof(m.run), "%s", run);
    cero_status st = cero_rank_file_unpack(tensor, 1, (const char *const[]){pack.data},
                                           (const size_t[]){pack.length}, 1, 0, &m);
    cero_text_cleanup(&pack);
    CERO_TRY(st);
    st = cero_manifest_write(&m, NULL, 0, out);
    cero_manifest_cleanup(&m);
    return st;
}

static cero_status fill(cero_folder_commit *commit, const char *run, const char *id, int64_t step)
{
    const cero_rank_file_tensor tensor = {"w", {1, {50}}};
    const cero_rank_file_range range = {0, 0, 50};
    cero_rank_file *file = NULL;
    cero_text text = {0};

    cero_status st = cero_rank_file_create(
        &(cero_rank_file_params){
            .tensors = &tensor, .tensor_count = 1, .ranges = &range, .range_count = 1},
        &file);
    if (st == CERO_OK) {
        st = cero_rank_file_write(file, cero_folder_commit_path(commit), id, give, &step, NULL);
    }
    if (st == CERO_OK) {
        st = make_manifest(file, &tensor, run, id, step, &text);
    }
    if (st == CERO_OK) {
        st = cero_folder_finish(commit, text.data, text.length);
    }
    cero_rank_file_destroy(&file);
    cero_text_cleanup(&text);
    return st;
}

/* What a save does: leftovers go, files are written, the checkpoint appears. */
static cero_status save(const char *tag, const char *run, int64_t step)
{
    char id[CERO_MANIFEST_ID];
    int64_t removed;
    cero_folder_commit *commit = NULL;

    cero_manifest_make_id(id);
    CERO_TRY(cero_folder_sweep(dir, &removed));
    CERO_TRY(cero_folder_begin(dir, tag, id, &commit));
    cero_status st = fill(commit, run, id, step);
    cero_folder_end(&commit);
    assert_null(commit);
    return st;
}

static cero_status save_step(int64_t step)
{
    char tag[CERO_FOLDER_MAX_TAG];

    return save(cero_folder_step_tag(step, tag), RUN, step);
}

/* All names in the folder, sorted, with a space after each. */
static const char *names(void)
{
    static char text[4096];
    char sorted[64][256];
    int count = 0;
    DIR *d = opendir(dir);

    for (const struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) {
            continue;
        }
        int at = count++;
        for (; at > 0 && strcmp(sorted[at - 1], e->d_name) > 0; at--) {
            (void)strcpy(sorted[at], sorted[at - 1]);
        }
        (void)snprintf(sorted[at], sizeof(sorted[at]), "%s", e->d_name);
    }
    (void)closedir(d);
    text[0] = '\0';
    for (int i = 0; i < count; i++) {
        (void)strcat(strcat(text, sorted[i]), " ");
    }
    return text;
}

/* The list as "name kind step", complete ones '+', broken '-', orphans '~', replaced '='. */
static const char *listed(void)
{
    static char text[4096];
    cero_folder_list list;

    assert_ok(cero_folder_list_read(dir, &list));
    text[0] = '\0';
    for (int64_t i = 0; i < list.count; i++) {
        const cero_folder_entry *e = &list.entries[i];
        char line[256];
        (void)snprintf(line, sizeof(line), "%s%c%lld ", e->name,
                       e->is_replaced                    ? '='
                       : e->kind == CERO_FOLDER_COMPLETE ? '+'
                       : e->kind == CERO_FOLDER_BROKEN   ? '-'
                                                         : '~',
                       (long long)e->step);
        assert_true((e->reason != NULL) == (e->kind == CERO_FOLDER_BROKEN));
        (void)strcat(text, line);
    }
    cero_folder_list_cleanup(&list);
    return text;
}

/* Step of the newest complete checkpoint, after its manifest and file were looked at; -1: there is none. */
static int64_t newest_step(void)
{
    cero_folder_list list;
    int64_t step = -1;

    assert_ok(cero_folder_list_read(dir, &list));
    if (list.count > 0 && list.entries[0].kind == CERO_FOLDER_COMPLETE) {
        step = list.entries[0].step;
    }
    cero_folder_list_cleanup(&list);
    return step;
}

static void expect_hint(const char *tag)
{
    cero_folder_list list;

    assert_ok(cero_folder_list_read(dir, &list));
    assert_string_equal(list.latest, tag);
    cero_folder_list_cleanup(&list);
}

static void test_tags(void **state)
{
    CERO_UNUSED(state);
    static const char *const bad[] = {"",       ".",    "..",      ".hidden", "a/b",  "/a",
                                      "latest", "a\nb", "a.tmp-b", "a.old-b", "a\x7f"};
    char text[CERO_FOLDER_MAX_TAG];
    char longest[CERO_FOLDER_MAX_TAG + 1];

    for (size_t i = 0; i < CERO_COUNT_OF(bad); i++) {
        assert_fails(cero_folder_check_tag(bad[i]), CERO_ERR_INVALID, "cannot be called \"");
    }
    assert_ok(cero_folder_check_tag("best so far"));
    assert_ok(cero_folder_check_tag("latest-2"));
    assert_ok(cero_folder_check_tag("a.tmp"));
    memset(longest, 'a', sizeof(longest));
    longest[CERO_FOLDER_MAX_TAG] = '\0';
    assert_fails(cero_folder_check_tag(longest), CERO_ERR_INVALID, "1 to 127 characters");
    longest[CERO_FOLDER_MAX_TAG - 1] = '\0';
    assert_ok(cero_folder_check_tag(longest));
    assert_ok(save(longest, RUN, 1));
    assert_ok(save(longest, RUN, 2));
    assert_int_equal(newest_step(), 2);
    assert_string_equal(cero_folder_step_tag(120, text), "step-00000120");
    assert_string_equal(cero_folder_step_tag(INT64_MAX, text), "step-9223372036854775807");
}

static void test_commit(void **state)
{
    CERO_UNUSED(state);
    cero_folder_list list;

    assert_string_equal(listed(), "");
    assert_ok(save_step(3));
    assert_string_equal(names(), "latest step-00000003 ");
    assert_ok(cero_folder_list_read(dir, &list));
    assert_int_equal(list.count, 1);
    const cero_folder_entry *e = &list.entries[0];
    assert_string_equal(e->name, "step-00000003");
    assert_string_equal(e->run, RUN);
    assert_int_equal(strlen(e->id), 32);
    assert_false(e->is_replaced);
    int64_t nbytes = 0;
    int64_t more = 0;
    (void)cero_file_stat(files_in(dir, "step-00000003/manifest.json"), &nbytes);
    (void)cero_file_stat(files_in(dir, "step-00000003/rank-00000.safetensors"), &more);
    assert_int_equal(e->nbytes, nbytes + more);
    assert_string_equal(list.latest, "step-00000003");
    cero_folder_list_cleanup(&list);
    assert_ok(save_step(12));
    assert_ok(save("best", RUN, 12));
    assert_ok(save("best", RUN, 4)); // replaced, by one of an older step
    assert_string_equal(names(), "best latest step-00000003 step-00000012 ");
    assert_string_equal(listed(), "step-00000012+12 best+4 step-00000003+3 ");
    expect_hint("best");
}

static void test_begin(void **state)
{
    CERO_UNUSED(state);
    cero_folder_commit *commit = NULL;

    assert_fails(cero_folder_begin(dir, "a/b", "1", &commit), CERO_ERR_INVALID, "cannot be called");
    assert_fails(cero_folder_begin(dir, "a", "../1", &commit), CERO_ERR_INVALID, "the id");
    files_write(files_in(dir, "file"), "x", 1);
    assert_fails(cero_folder_begin(dir, "file", "1", &commit), CERO_ERR_IO, "is no folder");
    assert_int_equal(symlink("/", files_in(dir, "link")), 0);
    assert_fails(cero_folder_begin(dir, "link", "1", &commit), CERO_ERR_IO, "is no folder");
    assert_fails(cero_folder_begin(files_in(dir, "file"), "a", "1", &commit), CERO_ERR_IO,
                 "a file stands there");
    assert_ok(cero_folder_begin(dir, "a", "1", &commit));
    assert_string_equal(cero_folder_commit_path(commit), files_in(dir, "a.tmp-1"));
    cero_folder_commit *second = NULL;
    assert_fails(cero_folder_begin(dir, "a", "1", &second), CERO_ERR_IO, "File exists");
    // Nothing is left of one that was not finished, whatever was written.
    files_write(files_in(dir, "a.tmp-1/rank-00000.safetensors"), "x", 1);
    files_write(files_in(dir, "a.tmp-1/.hidden"), "x", 1);
    cero_folder_end(&commit);
    cero_folder_end(&commit);
    assert_string_equal(names(), "file link ");
}

static void note_folders(void *context, const cero_io_event *e)
{
    char *text = context;

    if (e->change == CERO_IO_MKDIR || (e->change == CERO_IO_FSYNC && e->path != NULL)) {
        (void)strcat(strcat(text, e->change == CERO_IO_MKDIR ? "+" : "!"), e->path + strlen(dir));
    }
}

/* A new folder is on the disk before anything is put into it. */
static void test_begin_is_durable(void **state)
{
    CERO_UNUSED(state);
    cero_folder_commit *commit = NULL;
    char text[1024] = "";

    cero_io_observe(note_folders, text);
    assert_ok(cero_folder_begin(files_in(dir, "out/checkpoints"), "a", "1", &commit));
    cero_io_observe(NULL, NULL);
    assert_string_equal(text, "+/out!+/out/checkpoints!/out+/out/checkpoints/a.tmp-1");
    cero_folder_end(&commit);
}

/* Changes in order, each by a letter and the names of what it was made to; ids and numbers are left out. */
static void note_all(void *context, const cero_io_event *e)
{
    static const char letters[] = "CWTSXRMUD";
    const char *const paths[] = {e->path, e->to};
    char *text = context;

    (void)strncat(text, &letters[e->change], 1);
    for (size_t i = 0; i < CERO_COUNT_OF(paths) && paths[i] != NULL; i++) {
        const char *at = paths[i] + strlen(dir);
        at += *at == '/';
        for (; *at != '\0'; at++) {
            const char *dash = strchr(".", *at) == NULL ? NULL : strchr(at, '-');
            if (dash != NULL && (strncmp(at, ".tmp-", 5) == 0 || strncmp(at, ".old-", 5) == 0)) {
                (void)strncat(text, at, 4);
                at = dash + strspn(dash, "-0123456789abcdef") - 1;
            } else {
                (void)strncat(text, at, 1);
            }
        }
        (void)strcat(text, i == 0 && paths[1] != NULL ? ">" : "");
    }
    (void)strcat(text, " ");
}

/* Files, then the folder, then the name, then the parent, then the hint, then what was replaced. */
static void test_protocol(void **state)
{
    CERO_UNUSED(state);
    char text[2048] = "";

    assert_ok(save("x", RUN, 1));
    cero_io_observe(note_all, text);
    assert_ok(save("x", RUN, 2));
    cero_io_observe(NULL, NULL);
    assert_string_equal(text, "Mx.tmp Cx.tmp/rank-00000.safetensors W S X "
                              "Cx.tmp/manifest.json W S X Sx.tmp "
                              "Rx>x.old Rx.tmp>x S "
                              "Clatest.tmp W S X Rlatest.tmp>latest S "
                              "Rx.old>x.tmp S Ux.tmp/manifest.json "
                              "Ux.tmp/rank-00000.safetensors Dx.tmp ");
}

static int64_t sweep(void)
{
    int64_t removed = -1;

    assert_ok(cero_folder_sweep(dir, &removed));
    return removed;
}

/* After a save of step 2 that ended somehow: the old one or the new one, and after a sweep nothing else. */
static void expect_survival(const char *fault, bool is_replacing, bool is_saved)
{
    int64_t step = newest_step();
    cero_folder_list list;

    if (step != 2 && (step != 1 || is_saved)) {
        fail_msg("%s: the newest is of step %lld: %s", fault, (long long)step, listed());
    }
    assert_ok(cero_folder_list_read(dir, &list));
    bool has_first = is_replacing && step == 2;
    for (int64_t i = 0; i < list.count; i++) {
        const cero_folder_entry *e = &list.entries[i];
        has_first = has_first || (e->kind == CERO_FOLDER_COMPLETE && e->step == 1);
        if (e->kind == CERO_FOLDER_BROKEN) {
            fail_msg("%s: %s is broken: %s", fault, e->name, e->reason);
        }
    }
    cero_folder_list_cleanup(&list);
    assert_true(has_first);
    (void)sweep();
    assert_int_equal(newest_step(), step);
    if (strstr(names(), CERO_MANIFEST_NAME) != NULL || strstr(names(), ".tmp-") != NULL) {
        fail_msg("%s left %s", fault, names());
    }
    // The next save needs nobody's help.
    assert_ok(save(is_replacing ? "a" : "b", RUN, 3));
    if (is_replacing) {
        assert_string_equal(names(), "a latest ");
    } else {
        assert_string_equal(names(), "a b latest ");
    }
    assert_int_equal(newest_step(), 3);
}

static void silent(void *context, cero_log_level level, const char *line)
{
    CERO_UNUSED(level);
    *(int *)context += line[0] != '\0';
}

/* Every change on the way to a second checkpoint fails in turn. */
static void fail_everywhere(bool is_replacing, const char *error)
{
    const char *tag = is_replacing ? "a" : "b";
    int lines = 0;
    int n = 1;

    cero_log_set_sink(silent, &lines);
    for (bool has_struck = true; has_struck; n++) {
        char fault[64];
        files_remove(dir);
        assert_int_equal(mkdir(dir, 0777), 0);
        assert_ok(save("a", RUN, 1));
        (void)snprintf(fault, sizeof(fault), "io:%d:%s", n, error);
        assert_int_equal(setenv("CERO_FAULT", fault, 1), 0);
        int before = lines;
        cero_status st = save(tag, RUN, 2);
        assert_int_equal(unsetenv("CERO_FAULT"), 0);
        has_struck = st != CERO_OK || lines > before;
        assert_true(st == CERO_OK || st == CERO_ERR_IO);
        if (st != CERO_OK) {
            // It failed: the first one has its name again, and nothing of the second is left.
            assert_string_equal(listed(), "a+1 ");
            assert_non_null(strstr(cero_error_message(), dir));
        }
        expect_survival(fault, is_replacing, st == CERO_OK);
    }
    cero_log_set_sink(NULL, NULL);
    assert_true(n > (is_replacing ? 22 : 16));
}

static void test_every_failure(void **state)
{
    CERO_UNUSED(state);
    fail_everywhere(false, "ENOSPC");
    fail_everywhere(true, "EIO");
}

/* The process ends before each change in turn. */
static void kill_everywhere(bool is_replacing)
{
    const char *tag = is_replacing ? "a" : "b";
    int n = 1;

    for (bool was_killed = true; was_killed; n++) {
        char fault[64];
        int status = 0;
        files_remove(dir);
        assert_int_equal(mkdir(dir, 0777), 0);
        assert_ok(save("a", RUN, 1));
        (void)snprintf(fault, sizeof(fault), "io:%d:SIGKILL", n);
        (void)fflush(stdout);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            (void)setenv("CERO_FAULT", fault, 1);
            _exit(save(tag, RUN, 2) == CERO_OK ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        was_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        assert_true(was_killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
        expect_survival(fault, is_replacing, !was_killed);
    }
    assert_true(n > (is_replacing ? 22 : 16));
}

static void test_every_kill(void **state)
{
    CERO_UNUSED(state);
    kill_everywhere(false);
    kill_everywhere(true);
}

/* When also the way back fails, both are there, the new one under the name. */
static void test_no_way_back(void **state)
{
    CERO_UNUSED(state);
    char id[CERO_MANIFEST_ID] = "abc";
    int lines = 0;
    cero_folder_commit *commit = NULL;

    assert_ok(save("a", RUN, 1));
    assert_ok(cero_folder_begin(dir, "a", id, &commit));
    // A folder that nothing can be renamed to: the second rename fails, as does the one back.
    assert_int_equal(mkdir(files_in(dir, "a.old-abc"), 0777), 0);
    files_write(files_in(dir, "a.old-abc/x"), "x", 1);
    cero_log_set_sink(silent, &lines);
    assert_fails(fill(commit, RUN, id, 2), CERO_ERR_IO, "moving ");
    cero_folder_end(&commit);
    cero_log_set_sink(NULL, NULL);
    assert_string_equal(listed(), "a+1 a.old-abc=-1 ");
    assert_string_equal(names(), "a a.old-abc latest ");
}

static void copy_folder(const char *from, const char *to)
{
    char command[512];

    (void)snprintf(command, sizeof(command), "cp -a '%s/%s' '%s/%s'", dir, from, dir, to);
    assert_int_equal(system(command), 0);
}

static void expect_reason(const char *name, const char *reason)
{
    cero_folder_list list;
    bool is_found = false;

    assert_ok(cero_folder_list_read(dir, &list));
    for (int64_t i = 0; i < list.count; i++) {
        if (strcmp(list.entries[i].name, name) == 0) {
            is_found = true;
            assert_int_equal(list.entries[i].kind, CERO_FOLDER_BROKEN);
            if (strstr(list.entries[i].reason, reason) == NULL) {
                fail_msg("%s: \"%s\" lacks \"%s\"", name, list.entries[i].reason, reason);
            }
        }
    }
    assert_true(is_found);
    cero_folder_list_cleanup(&list);
}

static void test_list(void **state)
{
    CERO_UNUSED(state);
    static const char data[] = "rank-00000.safetensors";
    char path[256];

    assert_ok(save_step(9));
    assert_ok(save_step(100));
    assert_ok(save("zero", RUN, 0));
    // None of ours.
    files_write(files_in(dir, "notes.txt"), "x", 1);
    assert_int_equal(mkdir(files_in(dir, ".hidden"), 0777), 0);
    assert_int_equal(mkdir(files_in(dir, "my.tmp-files"), 0777), 0);
    assert_int_equal(mkdir(files_in(dir, "an.old-friend"), 0777), 0);
    files_write(files_in(dir, "a.tmp-1"), "x", 1);
    // Leftovers, one that is replaced, one whose successor is not there.
    assert_int_equal(mkdir(files_in(dir, "a.tmp-12"), 0777), 0);
    copy_folder("step-00000100", "step-00000100.tmp-2");
    copy_folder("step-00000009", "step-00000100.old-5");
    copy_folder("step-00000100", "step-00000050.old-5");
    files_write(files_in(dir, "latest.tmp-1-2"), "x", 1);
    assert_string_equal(listed(),
                        "step-00000050.old-5+100 step-00000100+100 step-00000009+9 zero+0 "
                        "step-00000100.old-5=9 a.tmp-12~-1 latest.tmp-1-2~-1 "
                        "step-00000100.tmp-2~-1 ");
    // Broken ones.
    static const char *const broken[] = {"empty", "short", "lost", "flip", "link", "linked"};
    for (size_t i = 0; i < CERO_COUNT_OF(broken) - 1; i++) {
        copy_folder("zero", broken[i]);
    }
    (void)snprintf(path, sizeof(path), "empty/%s", CERO_MANIFEST_NAME);
    assert_int_equal(unlink(files_in(dir, path)), 0);
    (void)snprintf(path, sizeof(path), "short/%s", data);
    assert_int_equal(truncate(files_in(dir, path), 7), 0);
    (void)snprintf(path, sizeof(path), "lost/%s", data);
    assert_int_equal(unlink(files_in(dir, path)), 0);
    (void)snprintf(path, sizeof(path), "flip/%s", CERO_MANIFEST_NAME);
    int fd = open(files_in(dir, path), O_WRONLY);
    assert_int_equal(pwrite(fd, "F", 1, 2), 1);
    assert_int_equal(close(fd), 0);
    (void)snprintf(path, sizeof(path), "link/%s", data);
    assert_int_equal(unlink(files_in(dir, path)), 0);
    assert_int_equal(symlink("../zero/rank-00000.safetensors", files_in(dir, path)), 0);
    assert_int_equal(symlink("zero", files_in(dir, "linked")), 0);
    expect_reason("empty", "manifest.json");
    expect_reason("short", "rank-00000.safetensors (7 bytes, expected ");
    expect_reason("lost", "1 of the 1 files of ");
    expect_reason("lost", "rank-00000.safetensors (No such file or directory)");
    expect_reason("flip", "the file is damaged");
    expect_reason("link", "rank-00000.safetensors (a symbolic link)");
    expect_reason("linked", "it is a symbolic link");
    // A broken successor replaces nothing.
    (void)snprintf(path, sizeof(path), "step-00000100/%s", data);
    assert_int_equal(unlink(files_in(dir, path)), 0);
    assert_non_null(strstr(listed(), "step-00000100.old-5+9 "));
    assert_int_equal(sweep(), 3);
    assert_non_null(strstr(listed(), "step-00000100.old-5+9 "));
    assert_string_equal(names(), ".hidden a.tmp-1 an.old-friend empty flip latest link linked lost "
                                 "my.tmp-files notes.txt short step-00000009 step-00000050.old-5 "
                                 "step-00000100 step-00000100.old-5 zero ");
}

static void test_list_edges(void **state)
{
    CERO_UNUSED(state);
    cero_folder_list list;

    assert_ok(cero_folder_list_read(files_in(dir, "absent"), &list));
    assert_int_equal(list.count, 0);
    assert_string_equal(list.latest, "");
    files_write(files_in(dir, "latest"), "../../etc\n", 10);
    expect_hint("");
    files_write(files_in(dir, "latest"), "step-00000001\nmore", 18);
    expect_hint("step-00000001");
    assert_fails(cero_folder_list_read(files_in(dir, "latest"), &list), CERO_ERR_IO,
                 "Not a directory");
    assert_ok(save_step(1));
    cero_status st = CERO_ERR_NOMEM;
    uint64_t n = 1;
    for (; st == CERO_ERR_NOMEM; n++) {
        cero_mem_fail_at(n);
        st = cero_folder_list_read(dir, &list);
    }
    cero_mem_fail_at(0);
    assert_ok(st);
    assert_true(n > 10);
    cero_folder_list_cleanup(&list);
}

static void test_check_files(void **state)
{
    CERO_UNUSED(state);
    char text[9][CERO_MANIFEST_MAX_FILE_NAME];
    cero_manifest_file files[9];
    const cero_manifest m = {.files = files, .file_count = 9};

    for (int i = 0; i < 9; i++) {
        files[i] = (cero_manifest_file){.name = cero_rank_file_name(i, text[i]), .nbytes = 1};
        files_write(files_in(dir, text[i]), "x", 1);
    }
    assert_ok(cero_folder_check_files(dir, &m));
    assert_int_equal(unlink(files_in(dir, text[3])), 0);
    files_write(files_in(dir, text[5]), "xy", 2);
    assert_fails(cero_folder_check_files(dir, &m), CERO_ERR_IO, "2 of the 9 files of ");
    assert_non_null(strstr(cero_error_message(),
                           "rank-00003.safetensors (No such file or directory), "
                           "rank-00005.safetensors (2 bytes, expected 1); all ranks must see"));
    for (int i = 0; i < 9; i++) {
        (void)unlink(files_in(dir, text[i]));
    }
    assert_fails(cero_folder_check_files(dir, &m), CERO_ERR_IO, "9 of the 9 files of ");
    assert_non_null(strstr(cero_error_message(), ") and 3 more; all ranks"));
}

static int64_t retain(const char *tag, int64_t keep)
{
    int64_t removed = -1;

    assert_ok(cero_folder_retain(dir, RUN, tag, keep, &removed));
    return removed;
}

static bool is_full(int64_t keep)
{
    bool answer = false;

    assert_ok(cero_folder_is_full(dir, RUN, keep, &answer));
    return answer;
}

/* CK-09: by number, not by name. */
static void test_retain_by_step(void **state)
{
    CERO_UNUSED(state);
    assert_ok(save("step-9", RUN, 9));
    assert_false(is_full(2));
    assert_int_equal(retain("step-9", 2), 0);
    assert_ok(save("step-10", RUN, 10));
    assert_true(is_full(2));
    assert_int_equal(retain("step-10", 2), 0);
    assert_ok(save("step-100", RUN, 100));
    assert_int_equal(retain("step-100", 0), 0);
    assert_false(is_full(0));
    assert_int_equal(retain("step-100", 2), 1);
    assert_string_equal(names(), "latest step-10 step-100 ");
}

/* CK-12: keep 1, and the third save finds the disk full. */
static void test_retain_after_failure(void **state)
{
    CERO_UNUSED(state);
    assert_ok(save_step(1));
    assert_int_equal(retain("step-00000001", 1), 0);
    assert_ok(save_step(2));
    assert_int_equal(retain("step-00000002", 1), 1);
    assert_string_equal(names(), "latest step-00000002 ");
    assert_int_equal(setenv("CERO_FAULT", "write:2:ENOSPC", 1), 0);
    assert_fails(save_step(3), CERO_ERR_IO, "No space left on device");
    assert_int_equal(unsetenv("CERO_FAULT"), 0);
    assert_string_equal(names(), "latest step-00000002 ");
    assert_int_equal(newest_step(), 2);
    expect_hint("step-00000002");
}

/* Another run's, broken ones and the one that was just verified stay. */
static void test_retain_leaves(void **state)
{
    CERO_UNUSED(state);
    assert_ok(save("theirs", OTHER, 1));
    assert_ok(save("a", RUN, 2));
    assert_ok(save("b", RUN, 3));
    assert_ok(save("c", RUN, 4));
    assert_ok(save("back", RUN, 1));
    copy_folder("a", "broken");
    assert_int_equal(unlink(files_in(dir, "broken/rank-00000.safetensors")), 0);
    copy_folder("a", "c.old-1");
    assert_int_equal(retain("back", 2), 1);
    assert_string_equal(names(), "b back broken c c.old-1 latest theirs ");
    assert_int_equal(retain("none", 1), 2);
    assert_string_equal(names(), "broken c c.old-1 latest theirs ");
    // What cannot be moved out of the way stays as it is.
    assert_ok(save("d", RUN, 5));
    int64_t removed = -1;
    assert_int_equal(setenv("CERO_FAULT", "rename:1:EACCES", 1), 0);
    assert_fails(cero_folder_retain(dir, RUN, "d", 1, &removed), CERO_ERR_IO, "cannot remove");
    assert_int_equal(unsetenv("CERO_FAULT"), 0);
    assert_int_equal(removed, -1);
    assert_string_equal(names(), "broken c d latest theirs ");
}

/* A removal that ends anywhere leaves a whole checkpoint or an orphan. */
static void test_every_removal(void **state)
{
    CERO_UNUSED(state);
    for (int n = 1;; n++) {
        char fault[64];
        int64_t removed = -1;
        files_remove(dir);
        assert_int_equal(mkdir(dir, 0777), 0);
        assert_ok(save("a", RUN, 1));
        assert_ok(save("b", RUN, 2));
        (void)snprintf(fault, sizeof(fault), "io:%d:EIO", n);
        assert_int_equal(setenv("CERO_FAULT", fault, 1), 0);
        cero_status st = cero_folder_retain(dir, RUN, "b", 1, &removed);
        assert_int_equal(unsetenv("CERO_FAULT"), 0);
        assert_null(strchr(listed(), '-') != NULL && strstr(listed(), "a-") != NULL ? "" : NULL);
        assert_int_equal(newest_step(), 2);
        if (st == CERO_OK) {
            assert_int_equal(removed, 1);
            assert_int_equal(n, 6); // rename, fsync, two files, the folder
            return;
        }
        assert_int_equal(sweep(), n == 1 ? 0 : 1);
        assert_string_equal(names(), n == 1 ? "a b latest " : "b latest ");
    }
}

/* A folder inside a leftover is nobody's of ours: it stays, and the log says so. */
static void test_sweep_leaves(void **state)
{
    CERO_UNUSED(state);
    int lines = 0;

    assert_int_equal(mkdir(files_in(dir, "a.tmp-1"), 0777), 0);
    assert_int_equal(mkdir(files_in(dir, "a.tmp-1/mine"), 0777), 0);
    assert_int_equal(mkdir(files_in(dir, "b.tmp-1"), 0777), 0);
    files_write(files_in(dir, "b.tmp-1/x"), "x", 1);
    assert_int_equal(symlink("absent", files_in(dir, "b.tmp-1/y")), 0);
    cero_log_set_sink(silent, &lines);
    assert_int_equal(sweep(), 1);
    cero_log_set_sink(NULL, NULL);
    assert_int_equal(lines, 1);
    assert_string_equal(names(), "a.tmp-1 ");
}

static void test_space(void **state)
{
    CERO_UNUSED(state);
    assert_ok(cero_folder_check_space(dir, 0));
    assert_ok(cero_folder_check_space(dir, 1));
    assert_ok(cero_folder_check_space(files_in(dir, "not/yet/there"), 4096));
    assert_ok(cero_folder_check_space("not-there-relative", 1));
    assert_fails(cero_folder_check_space(files_in(dir, "not/yet"), INT64_MAX), CERO_ERR_IO,
                 "needs 9223372036854775807 bytes (8192.00 PiB), its disk has ");
    assert_fails(cero_folder_check_space("/", INT64_MAX), CERO_ERR_IO, "free");
}

/* Takes the lock in a process of its own, and holds it until `hold` is written to. Its exit is the status. */
static pid_t take_in_child(int hold, int ready)
{
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        (void)alarm(20); // one that nobody lets go ends, and fails
        char byte = 'x';
        cero_folder_lock *lock = NULL;
        cero_status st = cero_folder_lock_take(dir, &lock);
        if (write(ready, &byte, 1) != 1 || (st == CERO_OK && read(hold, &byte, 1) != 1)) {
            _exit(99);
        }
        _exit((int)st);
    }
    return child;
}

static int end_of(pid_t child)
{
    int status = 0;

    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void test_lock(void **state)
{
    CERO_UNUSED(state);
    int hold[2];
    int ready[2];
    char byte;
    char process[64];
    cero_folder_lock *lock = NULL;

    assert_fails(cero_folder_lock_take(files_in(dir, "absent"), &lock), CERO_ERR_IO, "to lock it");
    assert_int_equal(pipe(hold), 0);
    assert_int_equal(pipe(ready), 0);
    pid_t child = take_in_child(hold[0], ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    (void)snprintf(process, sizeof(process), "is in use by process %lld on host ",
                   (long long)child);
    assert_fails(cero_folder_lock_take(dir, &lock), CERO_ERR_INVALID, process);
    assert_fails(cero_folder_lock_take(dir, &lock), CERO_ERR_INVALID, "one process at a time");
    assert_null(lock);
    // It ends with the process, and is not a child's.
    assert_int_equal(write(hold[1], "x", 1), 1);
    assert_int_equal(end_of(child), CERO_OK);
    assert_ok(cero_folder_lock_take(dir, &lock));
    child = take_in_child(hold[0], ready[1]);
    assert_int_equal(end_of(child), CERO_ERR_INVALID);
    cero_folder_lock_release(&lock);
    cero_folder_lock_release(&lock);
    assert_null(lock);
    child = take_in_child(hold[0], ready[1]);
    assert_int_equal(write(hold[1], "x", 1), 1);
    assert_int_equal(end_of(child), CERO_OK);
    // A checkpoint's folder that is locked lists as one that is not.
    assert_string_equal(listed(), "");
    for (int i = 0; i < 2; i++) {
        (void)close(hold[i]);
        (void)close(ready[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_tags, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_commit, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_begin, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_begin_is_durable, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_protocol, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_every_failure, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_every_kill, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_no_way_back, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_list, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_list_edges, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_check_files, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_retain_by_step, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_retain_after_failure, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_retain_leaves, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_every_removal, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_sweep_leaves, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_space, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_lock, make_dir, remove_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
