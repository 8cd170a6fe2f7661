/* config_file.c: a line is a [section], a name = value, a comment or empty; nothing else. */
/*
 * Not inih: upstream's and Debian's builds both cut a line at 200 bytes and a
 * name at 50 unless told otherwise when the library is compiled (Debian's own
 * run-time switches exist nowhere else), name no line to the caller, and take
 * "a: b" and indented lines for settings. A setting cut short must be an error.
 */
#include "base/config_file.h"

#include <ctype.h>
#include <errno.h>
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
        reason = "it is larger than 1 MB";
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

/* Cuts "[name]" out of the line; NULL when it is not that. */
static char *
section_name(char *line)
{
    size_t len = strlen(line);

    if (len < 2 || line[len - 1] != ']')
        return NULL;
    line[len - 1] = '\0';
    return trim(line + 1);
}

/* One line, trimmed in place. *section changes when the line is a section's head. */
static enum rc
line_read(char *line, unsigned number, char **section, config_file_fn on_value, void *user,
          const char **ret_reason)
{
    line = trim(line);
    if (*line == '\0' || *line == '#' || *line == ';')
        return RC_OK;
    if (*line == '[') {
        char *name = section_name(line);

        if (name == NULL) {
            *ret_reason = "a section must be [name] alone on its line";
            return RC_BAD;
        }
        *section = name;
        return on_value(user, number, name, NULL, NULL);
    }

    char *equals = strchr(line, '=');

    if (equals == NULL) {
        *ret_reason = "a line must be [section], name = value, or a comment behind # or ;";
        return RC_BAD;
    }
    if (*section == NULL) {
        *ret_reason = "a setting must stand below a [section]";
        return RC_BAD;
    }
    *equals = '\0';
    return on_value(user, number, *section, trim(line), trim(equals + 1));
}

static enum rc
text_read(char *text, size_t len, config_file_fn on_value, void *user, const char **ret_reason,
          unsigned *ret_line)
{
    char *section = NULL, *end = text + len;
    unsigned number = 1;

    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        text += 3;
    for (char *next; text < end; text = next, number++) {
        char *stop = memchr(text, '\n', (size_t)(end - text));
        enum rc rc;

        if (stop == NULL)
            stop = end;
        *stop = '\0';
        next = stop + 1;
        *ret_line = number;
        if (strlen(text) != (size_t)(stop - text)) {
            *ret_reason = "a line must not hold a zero byte";
            return RC_BAD;
        }
        rc = line_read(text, number, &section, on_value, user, ret_reason);
        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}

enum rc
config_file_read(const char *path, config_file_fn on_value, void *user, const char **ret_reason,
                 unsigned *ret_line)
{
    char *text = NULL;
    size_t len = 0;
    const char *reason = file_slurp(path, &text, &len);

    if (reason != NULL) {
        *ret_reason = reason;
        *ret_line = 0;
        return RC_BAD;
    }

    enum rc rc = text_read(text, len, on_value, user, ret_reason, ret_line);

    explicit_bzero(text, len);
    free(text);
    return rc;
}
