/* arguments.h: the arguments of one command. */
#ifndef CLAIRON_STORE_ARGUMENTS_H
#define CLAIRON_STORE_ARGUMENTS_H

#include <stddef.h>

#define ARGUMENTS_FEW 12 /* take no memory of their own */

/* Begins as {.argc = 0}. All words are views that must outlive the command's sending. */
struct arguments {
    const char **argv;
    size_t *lens;
    size_t argc;
    size_t room;
    const char *few[ARGUMENTS_FEW];
    size_t few_lens[ARGUMENTS_FEW];
};

void argument(struct arguments *arguments, const char *text);
/* What is no text: it may hold zeroes, and needs none at its end. */
void argument_bytes(struct arguments *arguments, const void *bytes, size_t len);
void arguments_free(struct arguments *arguments); /* leaves them empty */

#endif
