/* temp_folder.h -- a flat folder for the files of a test, removed with its contents. */
#ifndef TEST_TEMP_FOLDER_H
#define TEST_TEMP_FOLDER_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct temp_folder {
    char path[64];
} temp_folder;

static inline void temp_folder_make(temp_folder *f)
{
    strcpy(f->path, "/tmp/spolia-test-XXXXXX");
    assert_non_null(mkdtemp(f->path));
}

static inline const char *temp_folder_file(const temp_folder *f, const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", f->path, name);
    return path;
}

static inline void temp_folder_write(const temp_folder *f, const char *name, const void *data,
                                     size_t n)
{
    FILE *out = fopen(temp_folder_file(f, name), "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(data, 1, n, out), n);
    assert_int_equal(fclose(out), 0);
}

static inline void temp_folder_text(const temp_folder *f, const char *name, const char *text)
{
    temp_folder_write(f, name, text, strlen(text));
}

static inline void temp_folder_remove(const temp_folder *f)
{
    DIR *d = opendir(f->path);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            unlink(temp_folder_file(f, e->d_name));
    closedir(d);
    assert_int_equal(rmdir(f->path), 0);
}

#endif
