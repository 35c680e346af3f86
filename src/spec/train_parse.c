/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes the members of a config (or one override) through the key table: sets supported keys, notes the
 * ones without effect, refuses the rest with its path, its place and the nearest known key.
 */
#include "spec/train_impl.h"

#include "base/memory.h"

#include <stdio.h>
#include <string.h>

/* An override replaces what the file said, "auto" included. */
static cero_status take_key(const cero_train_place *at, int i, const cero_json *v)
{
    int count;
    const cero_train_key *key = &cero_train_keys(&count)[i];
    cero_train_config *config = at->config;

    if (config->where[i] != NULL && at->origin == CERO_ORIGIN_FILE) {
        return CERO_JSON_FAIL(v, "%s is given twice (first at %d:%d); remove one", at->path,
                              config->where[i]->line, config->where[i]->column);
    }
    config->where[i] = v;
    config->is_auto[i] = v->type == CERO_JSON_STRING && strcmp(v->text, "auto") == 0 &&
                         strcmp(key->name, "gradient_order") != 0;
    if (config->is_auto[i]) {
        config->origin[i] = CERO_ORIGIN_DERIVED;
        return CERO_OK;
    }
    if (v->type == CERO_JSON_NULL && (key->flags & CERO_TRAIN_NULL) != 0) {
        if (strcmp(key->name, "steps_per_print") == 0) {
            config->values.spec.steps_per_print = 0;
            config->origin[i] = (unsigned char)at->origin;
        }
        return CERO_OK;
    }
    CERO_TRY(cero_train_set_value(at, key, v));
    config->origin[i] = (unsigned char)at->origin;
    return CERO_OK;
}

/* The value of a key that is not ours must have the type of its default, and no other sign. */
static cero_status check_like_default(const cero_train_place *at, const cero_json *v,
                                      const char *def)
{
    char first = def[0];
    bool is_real = strpbrk(def, ".") != NULL && first != '"';
    int64_t number;

    if (v->type == CERO_JSON_NULL || strcmp(def, "null") == 0 ||
        (v->type == CERO_JSON_STRING && strcmp(v->text, "auto") == 0)) {
        return CERO_OK;
    }
    if (first == 't' || first == 'f') {
        return v->type == CERO_JSON_BOOL ? CERO_OK : cero_train_fail_type(at, v, "true or false");
    }
    if (first == '"' || first == '[' || first == '{') {
        cero_json_type type = first == '"'   ? CERO_JSON_STRING
                              : first == '[' ? CERO_JSON_ARRAY
                                             : CERO_JSON_OBJECT;
        return v->type == type ? CERO_OK : cero_train_fail_type(at, v, cero_json_type_name(type));
    }
    if (v->type != CERO_JSON_NUMBER || (!is_real && cero_json_int(v, &number) != CERO_OK)) {
        return cero_train_fail_type(at, v, is_real ? "a number" : "an integer");
    }
    return v->number < 0 && first != '-' ? cero_train_fail_type(at, v, "a number of at least 0")
                                         : CERO_OK;
}

static bool is_default(const cero_json *v, const char *def)
{
    switch (v->type) {
    case CERO_JSON_NULL:
        return true;
    case CERO_JSON_BOOL:
        return strcmp(def, v->boolean ? "true" : "false") == 0;
    case CERO_JSON_NUMBER: {
        double number = 0;
        return sscanf(def, "%lf", &number) == 1 && number == v->number;
    }
    case CERO_JSON_STRING:
        // The text may hold a NUL, so it is compared by its length.
        return strcmp(v->text, "auto") == 0 ||
               (def[0] == '"' && strlen(def) == v->text_length + 2 &&
                memcmp(def + 1, v->text, v->text_length) == 0);
    case CERO_JSON_ARRAY:
    case CERO_JSON_OBJECT:
    case CERO_JSON_COUNT:
    default:
        return v->count == 0;
    }
}

static cero_status take_other(const cero_train_place *at, const cero_train_group *group,
                              const cero_train_name *name, const cero_json *v)
{
    if (name->def != NULL) {
        CERO_TRY(check_like_default(at, v, name->def));
    }
    if (group->class == CERO_TRAIN_REFUSED) {
        if (is_default(v, name->def == NULL ? "null" : name->def)) {
            return CERO_OK;
        }
        return CERO_TRAIN_REFUSE(v, "%s is refused: %s Remove it%s%s", at->path, group->reason,
                                 name->def == NULL || name->def[0] == '{' ? "" : " or set it to ",
                                 name->def == NULL || name->def[0] == '{' ? "" : name->def);
    }
    cero_train_config *config = at->config;
    void *array = config->notes;
    cero_status st =
        cero_grow(&array, config->note_count, &config->note_capacity, sizeof(config->notes[0]));
    config->notes = array;
    char *note = st == CERO_OK ? cero_strdup(at->path) : NULL;
    if (note == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for the notes on a config");
    }
    config->notes[config->note_count++] = note;
    return CERO_OK;
}

/* The group and name of a key that is not supported; false if there is none. */
static bool find_other(const char *section, const char *name, const cero_train_group **group,
                       const cero_train_name **found)
{
    int count;
    const cero_train_group *groups = cero_train_groups(&count);

    for (int g = 0; g < count; g++) {
        if (strcmp(groups[g].section, section) != 0) {
            continue;
        }
        for (const cero_train_name *n = groups[g].names; n->name != NULL; n++) {
            if (strcmp(n->name, name) == 0) {
                *group = &groups[g];
                *found = n;
                return true;
            }
        }
    }
    return false;
}

static bool is_section(const char *path)
{
    for (int i = 0; cero_train_section(i) != NULL; i++) {
        if (strcmp(cero_train_section(i), path) == 0) {
            return true;
        }
    }
    return false;
}

/* Section i as a member of `section`, NULL if it is none. */
static const char *section_member(const char *section, int i)
{
    const char *path = cero_train_section(i);
    size_t n = strlen(section);

    if (n > 0) {
        if (strncmp(path, section, n) != 0 || path[n] != '.') {
            return NULL;
        }
        path += n + 1;
    }
    return strchr(path, '.') == NULL ? path : NULL;
}

/* Name i of everything that a section may hold; for the nearest name. */
static const char *next_name(const void *context, int i)
{
    const char *section = context;
    int count;
    const cero_train_key *keys = cero_train_keys(&count);

    for (int k = 0; k < count; k++) {
        if (strcmp(keys[k].section, section) == 0 && i-- == 0) {
            return keys[k].name;
        }
    }
    const cero_train_group *groups = cero_train_groups(&count);
    for (int g = 0; g < count; g++) {
        if (strcmp(groups[g].section, section) == 0) {
            for (const cero_train_name *n = groups[g].names; n->name != NULL; n++) {
                if (i-- == 0) {
                    return n->name;
                }
            }
        }
    }
    for (int s = 0; cero_train_section(s) != NULL; s++) {
        const char *member = section_member(section, s);
        if (member != NULL && i-- == 0) {
            return member;
        }
    }
    return NULL;
}

static cero_status fail_unknown(const cero_train_place *at, const cero_json *v)
{
    const char *nearest = cero_train_nearest(at->name, next_name, at->section);
    char path[CERO_TRAIN_MAX_PATH];
    int count;
    const cero_train_key *keys = cero_train_keys(&count);

    if (nearest != NULL) {
        return CERO_JSON_FAIL(v, "unknown key %s, did you mean %s?", at->path,
                              cero_train_path(at->section, nearest, path, sizeof(path)));
    }
    for (int k = 0; k < count; k++) {
        if (strcmp(keys[k].name, at->name) == 0) {
            return CERO_JSON_FAIL(
                v, "unknown key %s; its place is %s", at->path,
                cero_train_path(keys[k].section, keys[k].name, path, sizeof(path)));
        }
    }
    return CERO_JSON_FAIL(v, "unknown key %s; `cero info --config-docs` lists what is known",
                          at->path);
}

static cero_status take_section(cero_train_config *config, const char *section,
                                const cero_json *object, cero_origin origin);

/* DeepSpeed's first form: true is stage 1, false is 0. */
static cero_status take_zero_bool(cero_train_config *config, const cero_json *v, cero_origin origin)
{
    int i = cero_train_find_key("zero_optimization", "stage");

    config->values.spec.zero_stage = v->boolean ? 1 : 0;
    config->origin[i] = (unsigned char)origin;
    config->where[i] = v;
    return CERO_OK;
}

static cero_status take_member(cero_train_config *config, const char *section, const char *name,
                               const cero_json *v, cero_origin origin)
{
    const cero_train_group *group = NULL;
    const cero_train_name *other = NULL;
    cero_train_place at = {.config = config, .section = section, .name = name, .origin = origin};

    if (section[0] == '\0' && strcmp(name, "bfloat16") == 0) {
        name = "bf16";
    }
    (void)cero_train_path(section, name, at.path, sizeof(at.path));
    int i = cero_train_find_key(section, name);
    if (i >= 0) {
        return take_key(&at, i, v);
    }
    if (find_other(section, name, &group, &other)) {
        return take_other(&at, group, other, v);
    }
    if (!is_section(at.path)) {
        return fail_unknown(&at, v);
    }
    if (v->type == CERO_JSON_BOOL && strcmp(at.path, "zero_optimization") == 0) {
        return take_zero_bool(config, v, origin);
    }
    if (v->type != CERO_JSON_OBJECT && v->type != CERO_JSON_NULL) {
        return cero_train_fail_type(&at, v, "an object");
    }
    return v->type == CERO_JSON_NULL ? CERO_OK : take_section(config, at.path, v, origin);
}

static cero_status take_section(cero_train_config *config, const char *section,
                                const cero_json *object, cero_origin origin)
{
    for (const cero_json *v = object->child; v != NULL; v = v->next) {
        CERO_TRY(take_member(config, section, v->key, v, origin));
    }
    return CERO_OK;
}

cero_status cero_train_parse_root(cero_train_config *config, const cero_json *root)
{
    if (root->type != CERO_JSON_OBJECT) {
        return CERO_JSON_FAIL(root, "a config is an object, found %s",
                              cero_json_type_name(root->type));
    }
    CERO_TRY(take_section(config, "", root, CERO_ORIGIN_FILE));
    return CERO_OK;
}

cero_status cero_train_parse_override(cero_train_config *config, const char *path,
                                      const cero_json *value)
{
    char section[CERO_TRAIN_MAX_PATH];
    const char *dot = strrchr(path, '.');
    size_t n = dot == NULL ? 0 : (size_t)(dot - path);

    if (strlen(path) >= CERO_TRAIN_MAX_PATH) {
        return CERO_JSON_FAIL(value, "unknown key %.60s...", path);
    }
    memcpy(section, path, n);
    section[n] = '\0';
    if (strncmp(section, "bfloat16", 9) == 0) {
        (void)strcpy(section, "bf16");
    }
    if (n > 0 && !is_section(section)) {
        // The first part that is not known is what the message is about.
        char *end = strchr(section, '.');
        while (end != NULL) {
            *end = '\0';
            bool is_known = is_section(section);
            *end = '.';
            if (!is_known) {
                break;
            }
            end = strchr(end + 1, '.');
        }
        if (end != NULL) {
            *end = '\0';
        }
        const char *last = strrchr(section, '.');
        char parent[CERO_TRAIN_MAX_PATH] = "";
        if (last != NULL) {
            memcpy(parent, section, (size_t)(last - section));
        }
        CERO_TRY(take_member(config, parent, last == NULL ? section : last + 1, value,
                             CERO_ORIGIN_COMMAND));
        return CERO_JSON_FAIL(value, "unknown key %s: %s holds no other keys", path, section);
    }
    CERO_TRY(
        take_member(config, section, dot == NULL ? path : dot + 1, value, CERO_ORIGIN_COMMAND));
    return CERO_OK;
}
