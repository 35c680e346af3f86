/* SPDX-License-Identifier: Apache-2.0 */
/* Names in the folder of checkpoints, room on its disk, and the lock of the process that writes to it. */
#include "ckpt/checkpoint/folder_impl.h"

#include "base/file.h"
#include "base/io.h"
#include "base/log.h"
#include "base/memory.h"
#include "ckpt/checkpoint/manifest_impl.h"
#include "ckpt/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

bool cero_folder_is_tag(const char *tag)
{
    size_t length = strnlen(tag, CERO_FOLDER_MAX_TAG);

    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)tag[i] < 0x20 || tag[i] == 0x7F || tag[i] == '/') {
            return false;
        }
    }
    return length > 0 && length < CERO_FOLDER_MAX_TAG && tag[0] != '.' &&
           strcmp(tag, CERO_FOLDER_LATEST) != 0 && strstr(tag, CERO_FOLDER_TMP) == NULL &&
           strstr(tag, CERO_FOLDER_OLD) == NULL;
}

cero_status cero_folder_check_tag(const char *tag)
{
    char quoted[CERO_SAFETENSORS_QUOTE];

    CERO_CHECK(cero_folder_is_tag(tag), CERO_ERR_INVALID,
               "a checkpoint cannot be called %s: its name is that of a folder, 1 to %d characters "
               "without '/' and control characters, not \"%s\", not starting with '.', without "
               "\"%s\" and \"%s\"",
               cero_safetensors_quote(tag, quoted, sizeof(quoted)), CERO_FOLDER_MAX_TAG - 1,
               CERO_FOLDER_LATEST, CERO_FOLDER_TMP, CERO_FOLDER_OLD);
    return CERO_OK;
}

const char *cero_folder_step_tag(int64_t step, char text[CERO_FOLDER_MAX_TAG])
{
    (void)snprintf(text, CERO_FOLDER_MAX_TAG, "step-%08lld", (long long)step);
    return text;
}

cero_folder_name cero_folder_name_parse(const char *name, char tag[CERO_FOLDER_MAX_TAG])
{
    const char *tmp = strstr(name, CERO_FOLDER_TMP);
    const char *suffix = tmp != NULL ? tmp : strstr(name, CERO_FOLDER_OLD);
    size_t length = suffix != NULL ? (size_t)(suffix - name) : strlen(name);

    if (length >= CERO_FOLDER_MAX_TAG) {
        return CERO_FOLDER_NAME_OTHER;
    }
    memcpy(tag, name, length);
    tag[length] = '\0';
    if (!cero_folder_is_tag(tag)) {
        return CERO_FOLDER_NAME_OTHER;
    }
    if (suffix == NULL) {
        return CERO_FOLDER_NAME_TAG;
    }
    if (!cero_manifest_is_id(suffix + strlen(CERO_FOLDER_TMP))) {
        return CERO_FOLDER_NAME_OTHER;
    }
    return tmp != NULL ? CERO_FOLDER_NAME_TMP : CERO_FOLDER_NAME_OLD;
}

char *cero_folder_path(const char *dir, const char *tag, const char *suffix, const char *id)
{
    char name[CERO_FOLDER_MAX_NAME];

    (void)snprintf(name, sizeof(name), "%s%s%s", tag, suffix == NULL ? "" : suffix,
                   id == NULL ? "" : id);
    return cero_file_join(dir, name);
}

/* Cuts a path down to the nearest folder that is there. */
static void cut_to_existing(char *path)
{
    while (cero_file_stat(path, NULL) != CERO_FILE_DIRECTORY) {
        char *slash = strrchr(path, '/');
        if (slash == NULL) {
            (void)strcpy(path, ".");
            return;
        }
        slash[slash == path ? 1 : 0] = '\0';
        if (slash == path) {
            return;
        }
    }
}

cero_status cero_folder_check_space(const char *dir, int64_t nbytes)
{
    struct statvfs info;
    char *path = cero_new(strlen(dir) + 2, 1); // room for "."

    if (path == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for the path %s", dir);
    }
    memcpy(path, dir, strlen(dir));
    cut_to_existing(path);
    bool is_known = statvfs(path, &info) == 0 && info.f_blocks > 0;
    cero_delete(path);
    if (!is_known) {
        return CERO_OK; // a file system that does not say; writing will show
    }
    unsigned long size = info.f_frsize > 0 ? info.f_frsize : 1;
    uint64_t needed = (uint64_t)nbytes / size + ((uint64_t)nbytes % size != 0);
    if (needed > info.f_bavail) {
        char want[32];
        char have[32];
        double available = (double)info.f_bavail * (double)size;
        return CERO_FAIL(CERO_ERR_IO,
                         "a checkpoint in %s needs %lld bytes (%s), its disk has %.0f bytes (%s) "
                         "free: make room, keep fewer checkpoints or use another disk",
                         dir, (long long)nbytes,
                         cero_text_bytes((double)nbytes, want, sizeof(want)), available,
                         cero_text_bytes(available, have, sizeof(have)));
    }
    return CERO_OK;
}

struct cero_folder_lock {
    int fd; /* -1: a file system without locks */
};

/* The process that holds the lock, as it wrote itself there. */
static cero_status fail_held(const char *dir, const char *path)
{
    char *holder = NULL;
    size_t length;

    if (cero_file_read(path, 512, &holder, &length) == CERO_OK) {
        holder[strcspn(holder, "\n")] = '\0';
    }
    cero_status st =
        CERO_FAIL(CERO_ERR_INVALID,
                  "%s is in use by %s: one process at a time writes checkpoints to it; wait for "
                  "that one, end it, or use another folder",
                  dir, holder != NULL && holder[0] != '\0' ? holder : "another process");
    cero_delete(holder);
    return st;
}

static void write_holder(int fd)
{
    char host[256] = "";
    char text[320];

    (void)gethostname(host, sizeof(host) - 1);
    int n = snprintf(text, sizeof(text), "process %lld on host %s\n", (long long)getpid(), host);
    // Only for the message to others: the lock itself is the file system's.
    if (cero_io_truncate(fd, 0) != 0 || cero_io_write(fd, text, (size_t)n) != (ssize_t)n) {
        cero_log(CERO_LOG_WARN, "ckpt", "cannot write who holds the lock: %s", strerror(errno));
    }
}

static bool has_no_locks(int error)
{
    return error == ENOLCK || error == EOPNOTSUPP || error == ENOTSUP || error == ENOSYS ||
           error == EINVAL;
}

static cero_status take(const char *dir, const char *path, int *fd)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    *fd = cero_io_open_write(path, 0);
    if (*fd < 0) {
        return CERO_FAIL(CERO_ERR_IO, "cannot open %s to lock it: %s", path, strerror(errno));
    }
    if (fcntl(*fd, F_SETLK, &whole) == 0) {
        write_holder(*fd);
        return CERO_OK;
    }
    int error = errno;
    (void)cero_io_close(*fd);
    *fd = -1;
    if (error == EACCES || error == EAGAIN) {
        return fail_held(dir, path);
    }
    if (!has_no_locks(error)) {
        return CERO_FAIL(CERO_ERR_IO, "cannot lock %s: %s", path, strerror(error));
    }
    cero_log(CERO_LOG_WARN, "ckpt",
             "the file system of %s has no locks (%s): nothing keeps a second run from writing to "
             "it",
             dir, strerror(error));
    return CERO_OK;
}

cero_status cero_folder_lock_take(const char *dir, cero_folder_lock **out)
{
    cero_folder_lock *lock = cero_new(1, sizeof(*lock));
    char *path = cero_file_join(dir, ".lock");
    cero_status st = lock != NULL && path != NULL
                         ? take(dir, path, &lock->fd)
                         : CERO_FAIL(CERO_ERR_NOMEM, "no memory to lock %s", dir);

    cero_delete(path);
    if (st != CERO_OK) {
        cero_delete(lock);
        return st;
    }
    *out = lock;
    return CERO_OK;
}

void cero_folder_lock_release(cero_folder_lock **lock)
{
    if (lock == NULL || *lock == NULL) {
        return;
    }
    if ((*lock)->fd >= 0) {
        (void)cero_io_close((*lock)->fd);
    }
    cero_delete(*lock);
    *lock = NULL;
}
