/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A supervised program ends as it should: its code comes back, signals reach it and press harder, nothing
 * that it leaves stays, and a new start follows where it may help.
 *
 * The programs are shells that send signals to their parent, which is this test: nothing waits for a time
 * that was guessed.
 */
#include "harness.h"

#include "base/log.h"
#include "cli/launch/restart.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

extern char **environ;

static cero_status supervise(const char *script, bool gentle, double grace,
                             cero_supervise_result *out)
{
    char shell[] = "sh";
    char option[] = "-c";
    char *text = cero_strdup(script);
    char *argv[] = {shell, option, text, NULL};
    cero_supervisor supervisor;

    assert_ok(cero_supervisor_init(&supervisor));
    cero_status st = cero_supervise(
        &supervisor,
        &(cero_supervise_params){
            .argv = argv, .environment = environ, .is_gentle = gentle, .grace = grace},
        out);
    cero_supervisor_cleanup(&supervisor);
    cero_delete(text);
    return st;
}

static void test_codes(void **state)
{
    static const struct {
        const char *script;
        int code;
    } cases[] = {{"exit 0", 0},           {"exit 78", 78},         {"exit 255", 255},
                 {"kill -9 $$", 128 + 9}, {"kill -6 $$", 128 + 6}, {"kill -TERM $$", 128 + 15}};
    (void)state;

    for (size_t i = 0; i < CERO_COUNT_OF(cases); i++) {
        cero_supervise_result r;
        assert_ok(supervise(cases[i].script, false, 60, &r));
        assert_int_equal(r.code, cases[i].code);
        assert_int_equal(r.signal, 0);
        assert_false(r.is_forced);
    }
}

#define WAIT "; while :; do sleep 0.05; done"

static void test_signals(void **state)
{
    static const struct {
        const char *script;
        bool is_gentle;
        int code;
        int signal;
        bool is_forced;
    } cases[] = {
        // handed on as they are
        {"trap 'exit 3' TERM; kill -TERM $PPID" WAIT, false, 3, SIGTERM, true},
        {"trap 'exit 4' INT; kill -INT $PPID" WAIT, false, 4, SIGINT, true},
        {"trap 'exit 5' TERM; kill -HUP $PPID" WAIT, false, 5, SIGHUP, true},
        {"trap 'exit 6' USR1; kill -USR1 $PPID" WAIT, false, 6, 0, false},
        {"trap 'exit 7' USR2; kill -USR2 $PPID" WAIT, true, 7, 0, false},
        // asked gently
        {"trap 'exit 75' USR1; kill -TERM $PPID" WAIT, true, 75, SIGTERM, false},
        {"trap 'exit 75' USR1; kill -INT $PPID" WAIT, true, 75, SIGINT, false},
        {"trap 'exit 75' USR1; kill -USR1 $PPID" WAIT, true, 75, SIGUSR1, false},
    };
    (void)state;

    for (size_t i = 0; i < CERO_COUNT_OF(cases); i++) {
        cero_supervise_result r;
        assert_ok(supervise(cases[i].script, cases[i].is_gentle, 60, &r));
        assert_int_equal(r.code, cases[i].code);
        assert_int_equal(r.signal, cases[i].signal);
        assert_int_equal(r.is_forced, cases[i].is_forced);
    }
}

/* Who does not listen is told, then killed. */
static void test_grace(void **state)
{
    cero_supervise_result r;
    (void)state;

    assert_ok(supervise("trap '' TERM; kill -TERM $PPID" WAIT, false, 0.2, &r));
    assert_int_equal(r.code, 128 + SIGKILL);
    assert_true(r.is_forced);
    assert_ok(supervise("trap '' USR1; kill -TERM $PPID" WAIT, true, 0.2, &r));
    assert_int_equal(r.code, 128 + SIGTERM);
    assert_true(r.is_forced);
}

/* The second request does not wait for the grace; two at once are one request. */
static void test_second_request(void **state)
{
    cero_supervise_result r;
    (void)state;

    assert_ok(supervise("trap '' USR1; kill -TERM $PPID; sleep 1.2; kill -TERM $PPID" WAIT, true,
                        3600, &r));
    assert_int_equal(r.code, 128 + SIGTERM);
    assert_int_equal(r.signal, SIGTERM);
    assert_ok(supervise("trap 'sleep 0.3; exit 75' USR1; kill -TERM $PPID; kill -INT $PPID" WAIT,
                        true, 3600, &r));
    assert_int_equal(r.code, 75);
}

/* Process of the number in a file; waits for the file. */
static pid_t read_pid(const char *path)
{
    long pid = 0;
    FILE *f = fopen(path, "r");

    assert_non_null(f);
    assert_int_equal(fscanf(f, "%ld", &pid), 1);
    (void)fclose(f);
    assert_int_equal(remove(path), 0);
    return (pid_t)pid;
}

/* Orphans end with the program that left them, also those in groups of their own that ignore SIGTERM. */
static void test_orphans(void **state)
{
    static const char *const scripts[] = {
        "sleep 1000 & echo $! >orphan.pid; kill -9 $$",
        "setsid sleep 1000 & echo $! >orphan.pid; exit 0",
        "setsid sh -c 'trap \"\" TERM; echo $$ >orphan.pid; touch orphan.ready; "
        "while :; do sleep 0.1; done' & "
        "while [ ! -e orphan.ready ]; do sleep 0.05; done; rm orphan.ready; kill -9 $$",
    };
    (void)state;

    for (size_t i = 0; i < CERO_COUNT_OF(scripts); i++) {
        cero_supervise_result r;
        assert_ok(supervise(scripts[i], false, 60, &r));
        pid_t orphan = read_pid("orphan.pid");
        assert_int_equal(kill(orphan, 0), -1);
        assert_int_equal(errno, ESRCH);
    }
}

/* Children from before are not ours to kill. */
static void test_other_children(void **state)
{
    cero_supervise_result r;
    pid_t other = fork();
    (void)state;

    if (other == 0) {
        (void)pause();
        _exit(0);
    }
    assert_true(other > 0);
    assert_ok(supervise("exit 9", false, 60, &r));
    assert_int_equal(r.code, 9);
    assert_int_equal(kill(other, 0), 0);
    assert_int_equal(kill(other, SIGKILL), 0);
}

static void test_cannot_start(void **state)
{
    char name[] = "/no/such/program";
    char *argv[] = {name, NULL};
    cero_supervisor supervisor;
    cero_supervise_result r;
    (void)state;

    assert_ok(cero_supervisor_init(&supervisor));
    assert_fails(cero_supervise(&supervisor,
                                &(cero_supervise_params){.argv = argv, .environment = environ}, &r),
                 CERO_ERR_IO, "starting /no/such/program: No such file");
    cero_supervisor_cleanup(&supervisor);
}

static void test_which_codes_restart(void **state)
{
    static const int restart[] = {75, 129, 134, 137, 139, 143, 192};
    static const int final[] = {0, 1, 2, 65, 66, 70, 73, 74, 76, 78, 127, 128, 193, 255};
    (void)state;

    for (size_t i = 0; i < CERO_COUNT_OF(restart); i++) {
        assert_true(cero_launch_may_restart(restart[i]));
    }
    for (size_t i = 0; i < CERO_COUNT_OF(final); i++) {
        assert_false(cero_launch_may_restart(final[i]));
    }
    assert_true(cero_launch_backoff(0) == 1);
    assert_true(cero_launch_backoff(3) == 8);
    assert_true(cero_launch_backoff(6) == 60);
    assert_true(cero_launch_backoff(1000000) == 60);
}

static int nine_is_a_signal(int code)
{
    return code == 9 ? 137 : code;
}

static char said[2048];

static void hear(void *context, cero_log_level level, const char *line)
{
    size_t used = strlen(said);

    (void)context;
    (void)level;
    (void)snprintf(said + used, sizeof(said) - used, "%s\n", line);
}

static bool forgets_codes;
static bool is_gentle;

/* Runs a script that counts its runs in a file; gives the code. */
static int run(const char *script, int max_restarts, int *runs)
{
    char shell[] = "sh";
    char option[] = "-c";
    char *argv[] = {shell, option, cero_strdup(script), NULL};
    cero_launch_run_params params = {
        .supervise = {.argv = argv, .environment = environ, .is_gentle = is_gentle, .grace = 60},
        .forgets_codes = forgets_codes,
        .exit_code = nine_is_a_signal,
        .max_restarts = max_restarts};
    int code = -1;
    char text[64] = "";

    said[0] = '\0';
    (void)remove("runs");
    cero_log_set_sink(hear, NULL);
    assert_ok(cero_launch_run(&params, &code));
    cero_log_set_sink(NULL, NULL);
    FILE *f = fopen("runs", "r");
    assert_non_null(f);
    (void)!fgets(text, sizeof(text), f);
    (void)fclose(f);
    *runs = (int)strlen(text);
    cero_delete(argv[2]);
    return code;
}

static void test_restarts(void **state)
{
    int runs = 0;
    (void)state;

    assert_int_equal(run("printf x >>runs; exit 75", 0, &runs), 75);
    assert_int_equal(runs, 1);
    assert_int_equal(run("printf x >>runs; exit 78", 5, &runs), 78);
    assert_int_equal(runs, 1);
    assert_int_equal(run("printf x >>runs; exit 75", 1, &runs), 75);
    assert_int_equal(runs, 2);
    assert_non_null(strstr(said, "the job ended with 75 after"));
    assert_non_null(strstr(said, "restart 1 of 1 in 1 s"));
    assert_non_null(strstr(said, "died 2 times (exit codes 75, 75) and --max-restarts is 1"));
    // mends itself at the second start, after a code that means signal 9 for this launcher
    assert_int_equal(run("printf x >>runs; [ $(wc -c <runs) = 2 ] || exit 9", 3, &runs), 0);
    assert_int_equal(runs, 2);
    assert_non_null(strstr(said, "the job ended with 137 (signal 9, Killed)"));
    // asked to end: no new start, whatever the code
    assert_int_equal(run("printf x >>runs; trap 'exit 75' TERM; kill -TERM $PPID" WAIT, 3, &runs),
                     128 + SIGTERM);
    assert_int_equal(runs, 1);
    // a launcher that may forget codes is not believed after a request
    forgets_codes = true;
    is_gentle = true;
    assert_int_equal(run("printf x >>runs; trap 'exit 0' USR1; kill -TERM $PPID" WAIT, 3, &runs),
                     75);
    assert_int_equal(run("printf x >>runs", 3, &runs), 0);
    forgets_codes = false;
    assert_int_equal(run("printf x >>runs; trap 'exit 0' USR1; kill -TERM $PPID" WAIT, 3, &runs),
                     0);
    is_gentle = false;
    // asked between two runs: by an orphan, which is waited for
    assert_int_equal(run("printf x >>runs; (sleep 0.1; kill -TERM $PPID) & kill -9 $$", 1, &runs),
                     137);
    assert_int_equal(runs, 1);
    assert_int_equal(remove("runs"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_codes),        cmocka_unit_test(test_signals),
        cmocka_unit_test(test_grace),        cmocka_unit_test(test_second_request),
        cmocka_unit_test(test_orphans),      cmocka_unit_test(test_other_children),
        cmocka_unit_test(test_cannot_start), cmocka_unit_test(test_which_codes_restart),
        cmocka_unit_test(test_restarts),
    };

    // A job in the background of a script inherits an ignored SIGINT.
    (void)signal(SIGINT, SIG_DFL);
    (void)signal(SIGHUP, SIG_DFL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
