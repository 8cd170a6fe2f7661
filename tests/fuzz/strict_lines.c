/* strict_lines.c: reports each input line that is not exactly one notification. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "tests/fuzz/strict_json.h"

/* `strict_lines` reads notifications; `strict_lines any` reads lines of any JSON. */
int
main(int argc, char **argv)
{
    unsigned flags = argc > 1 && strcmp(argv[1], "any") == 0 ? 0 : STRICT_NOTIFICATION;
    char *line = NULL;
    size_t room = 0;
    unsigned long number = 0;
    unsigned long bad = 0;
    ssize_t len;

    while ((len = getline(&line, &room, stdin)) > 0) {
        size_t at = 0;
        const char *fault = "missing final line feed";

        number++;
        if (line[len - 1] == '\n')
            fault = strict_json_check(line, (size_t)len - 1, flags, &at);
        if (fault != NULL && ++bad <= 10)
            printf("line %lu, byte %zu: %s: %.*s\n", number, at, fault, 80,
                   line + (at > 40 ? at - 40 : 0));
    }
    free(line);
    if (bad > 0 || number == 0)
        printf("%lu of %lu lines are invalid\n", bad, number);
    return bad > 0 || number == 0;
}
