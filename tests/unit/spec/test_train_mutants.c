/* SPDX-License-Identifier: Apache-2.0 */
/*
 * No mistake passes: each key of the table, misspelt by one letter, put into another section, given a
 * value of another type or another sign, is refused with its path; each default is accepted.
 */
#include "train_files.h"

#include "spec/train_impl.h"

enum {
    MAX_TEXT = 1024
};

/* {"train_batch_size": 8, "section": {"part": {\n"name": value}}} */
static void build(const char *section, const char *name, const char *value, char text[MAX_TEXT])
{
    char parts[CERO_TRAIN_MAX_PATH];
    int depth = 0;
    bool is_batch = strcmp(name, "train_batch_size") == 0;

    (void)snprintf(parts, sizeof(parts), "%s", section);
    (void)snprintf(text, MAX_TEXT, "{%s", is_batch ? "" : "\"train_batch_size\": 8, ");
    for (char *part = strtok(parts, "."); part != NULL; part = strtok(NULL, ".")) {
        size_t used = strlen(text);
        (void)snprintf(text + used, MAX_TEXT - used, "\"%s\": {", part);
        depth++;
    }
    size_t used = strlen(text);
    (void)snprintf(text + used, MAX_TEXT - used, "\n\"%s\": %s", name, value);
    for (int i = 0; i <= depth; i++) {
        (void)strcat(text, "}");
    }
}

static void refuse(const char *section, const char *name, const char *value)
{
    char text[MAX_TEXT];
    char path[CERO_TRAIN_MAX_PATH];
    cero_train_config *config = NULL;

    build(section, name, value, text);
    cero_status st = create_config(text, NULL, 1, &config);
    if (st != CERO_ERR_INVALID && st != CERO_ERR_UNSUPPORTED) {
        fail_msg("%s gave %s: %s", text, cero_status_name(st), cero_error_message());
    }
    (void)cero_train_path(section, name, path, sizeof(path));
    if (strstr(cero_error_message(), path) == NULL ||
        strstr(cero_error_message(), ".json:2:1: ") == NULL) {
        fail_msg("%s: \"%s\" does not name %s", text, cero_error_message(), path);
    }
}

static bool is_known(const char *section, const char *name)
{
    int count;
    const cero_train_group *groups = cero_train_groups(&count);
    char path[CERO_TRAIN_MAX_PATH];

    for (int g = 0; g < count; g++) {
        for (const cero_train_name *n = groups[g].names; n->name != NULL; n++) {
            if (strcmp(groups[g].section, section) == 0 && strcmp(n->name, name) == 0) {
                return true;
            }
        }
    }
    (void)cero_train_path(section, name, path, sizeof(path));
    for (int s = 0; cero_train_section(s) != NULL; s++) {
        if (strcmp(cero_train_section(s), path) == 0) {
            return true;
        }
    }
    return cero_train_find_key(section, name) >= 0;
}

/* Every `step`-th letter changed, dropped, doubled, swapped with the next; another section. */
static void misspell(const char *section, const char *name, size_t step)
{
    char mutant[128];
    size_t n = strlen(name);

    for (size_t i = 0; i < n; i += step) {
        for (int kind = 0; kind < 4; kind++) {
            (void)snprintf(mutant, sizeof(mutant), "%s", name);
            if (kind == 0) {
                mutant[i] = mutant[i] == 'x' ? 'y' : 'x';
            } else if (kind == 1) {
                memmove(mutant + i, mutant + i + 1, n - i);
            } else if (kind == 2) {
                memmove(mutant + i + 1, mutant + i, n - i + 1);
            } else if (i + 1 < n) {
                mutant[i] = name[i + 1];
                mutant[i + 1] = name[i];
            }
            if (!is_known(section, mutant)) {
                refuse(section, mutant, "1");
            }
        }
    }
    static const char *const elsewhere[] = {"", "optimizer", "zero_optimization", "cero"};
    for (size_t i = 0; i < CERO_COUNT_OF(elsewhere); i++) {
        if (!is_known(elsewhere[i], name)) {
            refuse(elsewhere[i], name, "1");
        }
    }
}

static void test_misspelt(void **state)
{
    int count;
    CERO_UNUSED(state);
    const cero_train_key *keys = cero_train_keys(&count);
    for (int i = 0; i < count; i++) {
        misspell(keys[i].section, keys[i].name, 1);
    }
}

static const char *const wrong[CERO_TRAIN_TYPE_COUNT][8] = {
    [CERO_TRAIN_INT] = {"-1", "1.5", "true", "\"3\"", "[1]", "{}", "1e30"},
    [CERO_TRAIN_SMALL] = {"-1", "1.5", "false", "\"3\"", "[1]", "{}", "1000"},
    [CERO_TRAIN_SEED] = {"-1", "0.5", "true", "\"3\"", "[1]", "null", "1e30"},
    [CERO_TRAIN_REAL] = {"-1", "-1e-9", "true", "\"3\"", "[1]", "{}", "null"},
    [CERO_TRAIN_BOOL] = {"0", "1", "\"true\"", "[]", "{}", "1.5"},
    [CERO_TRAIN_TEXT] = {"0", "true", "[]", "{}", "-1"},
    [CERO_TRAIN_WORD] = {"0", "true", "[]", "\"other\"", "null", "\"\""},
    [CERO_TRAIN_BETAS] = {"0.9", "[0.9]", "[0.9, 1]", "[-0.1, 0.9]", "[0.9, \"a\"]", "null",
                          "[0.1, 0.2, 0.3]"},
    [CERO_TRAIN_PATTERNS] = {"\"*\"", "null", "{}", "1", "true"},
};

static void test_wrong_values(void **state)
{
    int count;
    CERO_UNUSED(state);
    const cero_train_key *keys = cero_train_keys(&count);
    for (int i = 0; i < count; i++) {
        bool has_minus_one = (keys[i].flags & CERO_TRAIN_MINUS_ONE) != 0;
        for (int k = 0; k < 8 && wrong[keys[i].type][k] != NULL; k++) {
            const char *value = wrong[keys[i].type][k];
            refuse(keys[i].section, keys[i].name,
                   has_minus_one && strcmp(value, "-1") == 0 ? "-2" : value);
        }
        if ((keys[i].flags & CERO_TRAIN_POSITIVE) != 0) {
            refuse(keys[i].section, keys[i].name, "0");
        }
        if (keys[i].max > 0) {
            refuse(keys[i].section, keys[i].name, "1000000001");
        }
        if ((keys[i].flags & CERO_TRAIN_NULL) == 0) {
            refuse(keys[i].section, keys[i].name, "null");
        }
    }
    // The place of a wrong item is its own.
    cero_train_config *config = NULL;
    assert_fails(create_config("{\"cero\": {\"no_decay\": [\"a\",\n\"\"]}}", NULL, 1, &config),
                 CERO_ERR_INVALID, ".json:2:1: cero.no_decay: expected a pattern");
}

static void accept(const char *section, const char *name, const char *value)
{
    char text[MAX_TEXT];
    cero_train_config *config = NULL;

    build(section, name, value, text);
    if (create_config(text, NULL, 1, &config) != CERO_OK) {
        fail_msg("%s: %s", text, cero_error_message());
    }
    cero_train_config_destroy(&config);
}

/* Keys that are not ours: default and null are accepted, other types are refused. */
static void check_group(const cero_train_group *group)
{
    bool is_reached = group->section[0] == '\0';
    for (int s = 0; cero_train_section(s) != NULL; s++) {
        is_reached = is_reached || strcmp(cero_train_section(s), group->section) == 0;
    }
    if (!is_reached) {
        return; // inside an object that is taken as a whole
    }
    for (const cero_train_name *n = group->names; n->name != NULL; n++) {
        misspell(group->section, n->name, 5);
        accept(group->section, n->name, "null");
        if (n->def == NULL || strcmp(n->def, "null") == 0) {
            continue;
        }
        accept(group->section, n->name, n->def);
        accept(group->section, n->name, "\"auto\"");
        bool is_bool = n->def[0] == 't' || n->def[0] == 'f';
        refuse(group->section, n->name, is_bool ? "1" : "true");
        refuse(group->section, n->name, n->def[0] == '"' ? "1" : "\"3\"");
        if (group->class == CERO_TRAIN_REFUSED) {
            static const char *const others[][2] = {
                {"true", "false"}, {"false", "true"}, {"{}", "{\"a\": 1}"}};
            const char *other = n->def[0] == '"' ? "\"other\"" : "77";
            for (size_t i = 0; i < CERO_COUNT_OF(others); i++) {
                other = strcmp(n->def, others[i][0]) == 0 ? others[i][1] : other;
            }
            refuse(group->section, n->name, other);
        }
        if (n->def[0] >= '0' && n->def[0] <= '9') {
            refuse(group->section, n->name, "-1");
        }
    }
}

static void test_other_keys(void **state)
{
    int count;
    CERO_UNUSED(state);
    const cero_train_group *groups = cero_train_groups(&count);
    for (int g = 0; g < count; g++) {
        check_group(&groups[g]);
    }
}

static void test_defaults_are_accepted(void **state)
{
    int count;
    CERO_UNUSED(state);
    const cero_train_key *keys = cero_train_keys(&count);
    for (int i = 0; i < count; i++) {
        // Parameters of another type than the default's are refused by type, tested elsewhere.
        bool is_param = strstr(keys[i].section, ".params") != NULL && keys[i].types != 0;
        if (keys[i].def != NULL && !is_param) {
            accept(keys[i].section, keys[i].name, keys[i].def);
        }
        assert_true(keys[i].def != NULL || keys[i].def_note != NULL);
        assert_non_null(keys[i].meaning);
        for (int k = 0; k < i; k++) {
            assert_false(strcmp(keys[i].section, keys[k].section) == 0 &&
                         strcmp(keys[i].name, keys[k].name) == 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_misspelt),
        cmocka_unit_test(test_wrong_values),
        cmocka_unit_test(test_other_keys),
        cmocka_unit_test(test_defaults_are_accepted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
