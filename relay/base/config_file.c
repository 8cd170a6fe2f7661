/* config_file.c: parses INI. A line is a [section], a name = value, a comment or empty. */
/*
 * Why not inih: upstream and Debian truncate lines at 200 bytes and names at 50 unless compiled
 * otherwise, report no line number to the caller, and accept "a: b" and indented lines. A
 * truncated setting must be an error.
 */
#include "base/config_file.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static const char *
file_slurp(const char *path, char **ret_text, size_t *ret_len)
{
    FILE *file = fopen(path, "re");

    if (file == NULL)
        return strerror(errno);

    char *text = memory_new(CONFIG_FILE_MAX + 2);
    size_t len = fread(text, 1, CONFIG_FILE_MAX + 1, file);
    const char *reason = ferror(file) ? strerror(errno) : NULL;

    (void)fclose(file);
    if (reason == NULL && len > CONFIG_FILE_MAX)
        reason = "file is larger than 1 MB";
    if (reason != NULL) {
        free(text);
        return reason;
    }
    *ret_text = text;
    *ret_len = len;
    return NULL;
}

static char *
trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;

    size_t len = strlen(text);

    while (len > 0 && isspace((unsigned char)text[len - 1]))
        len--;
    text[len] = '\0';
    return text;
}

/* Reads the name of "[name]" in place; NULL: not a valid section. */
static char *
section_name(char *line)
{
    size_t len = strlen(line);

    if (len < 2 || line[len - 1] != ']')
        return NULL;
    line[len - 1] = '\0';
    return trim(line + 1);
}

struct file_reading {
    config_file_fn on_value;
    config_file_fault_fn on_fault;
    void *user;
    const char *section; /* NULL: no section yet */
    bool is_skipping;    /* settings of an invalid section are skipped */
};

static void
read_section(struct file_reading *reading, unsigned number, char *line)
{
    const char *name = section_name(line);

    reading->is_skipping = name == NULL;
    if (name == NULL) {
        reading->on_fault(reading->user, number, "a section must be [name] on a separate line");
        return;
    }
    reading->section = name;
    reading->on_value(reading->user, number, name, NULL, NULL);
}

/* Trims `line` in place. */
static void
read_line(struct file_reading *reading, unsigned number, char *line)
{
    char *equals;

    line = trim(line);
    if (*line == '\0' || *line == '#' || *line == ';')
        return;
    if (*line == '[') {
        read_section(reading, number, line);
        return;
    }
    if (reading->is_skipping)
        return;
    equals = strchr(line, '=');
    if (equals == NULL) {
        reading->on_fault(reading->user, number,
                          "a line must be [section], name = value, or a comment after # or ;");
        return;
    }
    if (reading->section == NULL) {
        reading->on_fault(reading->user, number, "a setting must follow a [section]");
        reading->is_skipping = true;
        return;
    }
    *equals = '\0';
    reading->on_value(reading->user, number, reading->section, trim(line), trim(equals + 1));
}

static void
read_text(struct file_reading *reading, char *text, size_t len)
{
    char *end = text + len;
    unsigned number = 1;

    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        text += 3;
    for (char *next; text < end; text = next, number++) {
        char *stop = memchr(text, '\n', (size_t)(end - text));

        if (stop == NULL)
            stop = end;
        *stop = '\0';
        next = stop + 1;
        if (strlen(text) != (size_t)(stop - text))
            reading->on_fault(reading->user, number, "a line must not contain a NUL byte");
        else
            read_line(reading, number, text);
    }
}

const char *
config_file_read(const char *path, config_file_fn on_value, config_file_fault_fn on_fault,
                 void *user)
{
    struct file_reading reading = {on_value, on_fault, user, NULL, false};
    char *text = NULL;
    size_t len = 0;
    const char *reason = file_slurp(path, &text, &len);

    if (reason != NULL)
        return reason;
    read_text(&reading, text, len);
    explicit_bzero(text, len);
    free(text);
    return NULL;
}
