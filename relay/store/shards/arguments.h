/* arguments.h: collects the arguments of one command. */
#ifndef CLAIRON_STORE_ARGUMENTS_H
#define CLAIRON_STORE_ARGUMENTS_H

#include <stddef.h>

#define ARGUMENTS_FEW 12 /* number of arguments without an allocation */

/* Initialize with {.argc = 0}. Arguments are not copied and must live until the command is sent. */
struct arguments {
    const char **argv;
    size_t *lens;
    size_t argc;
    size_t room;
    const char *few[ARGUMENTS_FEW];
    size_t few_lens[ARGUMENTS_FEW];
};

/* Adds a zero-terminated string. */
void argument(struct arguments *arguments, const char *text);
/* Adds bytes, which may include zero bytes. */
void argument_bytes(struct arguments *arguments, const void *bytes, size_t len);

/* A copy of arguments with their bytes, in one allocation: free it with free(). */
struct kept_arguments {
    size_t argc;
    const char **argv;
    size_t *lens;
};
struct kept_arguments *arguments_keep(size_t argc, const char *const *argv, const size_t *lens);

void arguments_free(struct arguments *arguments); /* the arguments are then empty */

#endif
