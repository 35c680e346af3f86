/* SPDX-License-Identifier: Apache-2.0 */
/* Each launcher gets exactly the words that say what was placed, and nothing it cannot carry. */
#include "harness.h"

#include "cli/launch/launch.h"

#include <stdlib.h>
#include <unistd.h>

static const char *const words[] = {"train", "--set", "a b"};

/* Three ranks on two hosts, two threads each. */
typedef struct fixture {
    cero_launch_job job;
    cero_words program;
} fixture;

static void fixture_open(fixture *f, const char *hostfile)
{
    *f = (fixture){0};
    f->program = (cero_words){.word = cero_new(3, sizeof(char *)), .count = 3};
    assert_non_null(f->program.word);
    memcpy(f->program.word, words, sizeof(words));
    assert_ok(cero_hostfile_parse("f", hostfile, strlen(hostfile), &f->job.hosts));
    assert_ok(cero_launch_place(0, false, &f->job));
    f->job.threads = 2;
    f->job.is_bound = true;
    f->job.program = &f->program;
    f->job.executable = "/opt/cero";
    cero_vector_add(&f->job.forwarded, "CERO_LOG");
    cero_vector_add(&f->job.forwarded, "OMP_NUM_THREADS");
    assert_ok(cero_vector_split(&f->job.extra, "--extra 'x y'"));
}

static void fixture_close(fixture *f)
{
    cero_delete(f->program.word);
    cero_launch_job_cleanup(&f->job);
}

static void expect(const fixture *f, const cero_launch_ops *ops, const char *line)
{
    cero_vector argv = {0};
    cero_text text = {0};

    ops->build(&f->job, ops->programs[0], &argv);
    assert_ok(cero_vector_finish(&argv));
    for (int64_t i = 0; i < argv.count; i++) {
        cero_text_printf(&text, "%s", i > 0 ? " " : "");
        cero_text_append_quoted(&text, argv.word[i]);
    }
    assert_string_equal(text.data, line);
    cero_text_cleanup(&text);
    cero_vector_cleanup(&argv);
}

static void test_openmpi(void **state)
{
    fixture f;
    (void)state;

    fixture_open(&f, "n1:2\nn2:1\n");
    expect(&f, &cero_launch_openmpi,
           "mpirun --host n1:2,n2:1 -n 3 --map-by slot:PE=2 --bind-to core -x CERO_LOG "
           "-x OMP_NUM_THREADS --extra 'x y' /opt/cero train --set 'a b'");
    f.job.is_bound = false;
    f.job.is_overloaded = true;
    f.job.agent = "/opt/agent";
    f.job.allows_root = true;
    f.job.first_argument = 1;
    expect(&f, &cero_launch_openmpi,
           "mpirun --allow-run-as-root --host n1:2,n2:1 -n 3 --map-by slot --bind-to none "
           "--mca mpi_yield_when_idle 1 --mca plm_rsh_agent /opt/agent -x CERO_LOG "
           "-x OMP_NUM_THREADS --extra 'x y' /opt/cero --set 'a b'");
    fixture_close(&f);
}

static void test_mpich(void **state)
{
    fixture f;
    (void)state;

    fixture_open(&f, "n1:2\nn2:1\n");
    expect(&f, &cero_launch_mpich,
           "mpiexec.hydra -hosts n1:2,n2:1 -n 3 -bind-to core:2 -genvall --extra 'x y' /opt/cero "
           "train --set 'a b'");
    f.job.is_bound = false;
    f.job.agent = "/opt/agent";
    expect(&f, &cero_launch_mpich,
           "mpiexec.hydra -hosts n1:2,n2:1 -n 3 -bind-to none -genvall -launcher ssh "
           "-launcher-exec /opt/agent --extra 'x y' /opt/cero train --set 'a b'");
    fixture_close(&f);
}

static void test_slurm(void **state)
{
    fixture f;
    (void)state;

    fixture_open(&f, "n1:2\nn2:1\n");
    assert_ok(cero_launch_slurm.check(&f.job));
    expect(&f, &cero_launch_slurm,
           "srun --mpi=pmix --nodes=2 --nodelist=n1,n2 --ntasks=3 --ntasks-per-node=2 "
           "--distribution=block --cpus-per-task=2 --cpu-bind=cores --kill-on-bad-exit=1 "
           "--export=ALL --extra 'x y' /opt/cero train --set 'a b'");
    f.job.is_bound = false;
    f.job.is_overloaded = true;
    expect(&f, &cero_launch_slurm,
           "srun --mpi=pmix --nodes=2 --nodelist=n1,n2 --ntasks=3 --ntasks-per-node=2 "
           "--distribution=block --overcommit --cpu-bind=none --kill-on-bad-exit=1 "
           "--export=ALL --extra 'x y' /opt/cero train --set 'a b'");
    f.job.agent = "/opt/agent";
    assert_fails(cero_launch_slurm.check(&f.job), CERO_ERR_UNSUPPORTED, "--remote-agent");
    fixture_close(&f);
    fixture_open(&f, "n1:1\nn2:3\n");
    assert_fails(cero_launch_slurm.check(&f.job), CERO_ERR_UNSUPPORTED,
                 "spreads 4 ranks evenly over 2 host(s)");
    fixture_close(&f);
}

static void test_what_words_cannot_carry(void **state)
{
    fixture f;
    char line[64];
    cero_text hosts = {0};
    (void)state;

    fixture_open(&f, "n1\n");
    assert_ok(cero_launch_mpich.check(&f.job));
    f.program.word[2] = ":";
    assert_fails(cero_launch_mpich.check(&f.job), CERO_ERR_UNSUPPORTED, "is ':', which parts");
    fixture_close(&f);
    for (int i = 0; i < 6000; i++) {
        (void)snprintf(line, sizeof(line), "node%05d.cluster.example slots=8\n", i);
        cero_text_append(&hosts, line, strlen(line));
    }
    fixture_open(&f, hosts.data);
    assert_fails(cero_launch_check_words(&f.job), CERO_ERR_UNSUPPORTED,
                 "the names of 6000 hosts take ");
    fixture_close(&f);
    cero_text_cleanup(&hosts);
}

static void test_root(void **state)
{
    fixture f;
    (void)state;

    fixture_open(&f, "n1\n");
    assert_int_equal(setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1), 0);
    assert_int_equal(unsetenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"), 0);
    if (geteuid() == 0) {
        assert_fails(cero_launch_openmpi.check(&f.job), CERO_ERR_INVALID,
                     "set OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1, or give "
                     "--allow-run-as-root");
    }
    assert_int_equal(setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1), 0);
    assert_ok(cero_launch_openmpi.check(&f.job));
    assert_int_equal(unsetenv("OMPI_ALLOW_RUN_AS_ROOT"), 0);
    f.job.allows_root = true;
    assert_ok(cero_launch_openmpi.check(&f.job));
    fixture_close(&f);
}

/* Codes that mean a signal for hydra, and those that mean themselves. */
static void test_exit_codes(void **state)
{
    static const int same[] = {0, 1, 2, 3, 16, 65, 66, 70, 74, 75, 78, 127};
    static const int signals[] = {4, 6, 7, 8, 9, 10, 11, 12, 13, 15};
    (void)state;

    for (size_t i = 0; i < CERO_COUNT_OF(same); i++) {
        assert_int_equal(cero_launch_mpich.exit_code(same[i]), same[i]);
    }
    for (size_t i = 0; i < CERO_COUNT_OF(signals); i++) {
        assert_int_equal(cero_launch_mpich.exit_code(signals[i]), 128 + signals[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_openmpi), cmocka_unit_test(test_mpich),
        cmocka_unit_test(test_slurm),   cmocka_unit_test(test_what_words_cannot_carry),
        cmocka_unit_test(test_root),    cmocka_unit_test(test_exit_codes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
