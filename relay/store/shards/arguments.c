/* arguments.c: the arguments of a command, and copies of them for a command that is sent again. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "store/shards/shard_request.h"

static void
arguments_grow(struct arguments *arguments)
{
    const size_t room = arguments->room * 2;
    const bool had_few = arguments->argv == arguments->few;

    if (room == 0) {
        arguments->argv = arguments->few;
        arguments->lens = arguments->few_lens;
        arguments->room = ARGUMENTS_FEW;
        return;
    }
    arguments->argv =
        memory_grow(had_few ? NULL : arguments->argv, room * sizeof(*arguments->argv));
    arguments->lens =
        memory_grow(had_few ? NULL : arguments->lens, room * sizeof(*arguments->lens));
    if (had_few) {
        memcpy(arguments->argv, arguments->few, sizeof(arguments->few));
        memcpy(arguments->lens, arguments->few_lens, sizeof(arguments->few_lens));
    }
    arguments->room = room;
}

void
argument(struct arguments *arguments, const char *text)
{
    argument_bytes(arguments, text, strlen(text));
}

void
argument_bytes(struct arguments *arguments, const void *bytes, size_t len)
{
    if (arguments->argc == arguments->room)
        arguments_grow(arguments);
    arguments->argv[arguments->argc] = bytes;
    arguments->lens[arguments->argc++] = len;
}

static char *
next_number(struct arguments *arguments)
{
    if (arguments->number_count == ARGUMENTS_NUMBERS)
        abort();
    return arguments->numbers[arguments->number_count++];
}

void
argument_number(struct arguments *arguments, int64_t number)
{
    char *text = next_number(arguments);

    snprintf(text, ENTRY_ID_TEXT_MAX, "%" PRId64, number);
    argument(arguments, text);
}

void
argument_entry(struct arguments *arguments, struct entry_id entry)
{
    char *text = next_number(arguments);

    entry_id_text(entry, text);
    argument(arguments, text);
}

void
arguments_free(struct arguments *arguments)
{
    if (arguments->argv != arguments->few) {
        free(arguments->argv);
        free(arguments->lens);
    }
    arguments->argc = arguments->room = arguments->number_count = 0;
    arguments->argv = NULL;
    arguments->lens = NULL;
}

struct kept_arguments *
arguments_keep(size_t argc, const char *const *argv, const size_t *lens)
{
    struct kept_arguments *kept;
    size_t bytes = 0;
    char *at;

    for (size_t i = 0; i < argc; i++)
        bytes += lens[i] + 1;
    kept = memory_new(sizeof(*kept) + argc * (sizeof(*kept->argv) + sizeof(*kept->lens)) + bytes);
    kept->argc = argc;
    kept->argv = (const char **)(kept + 1);
    kept->lens = (size_t *)(kept->argv + argc);
    at = (char *)(kept->lens + argc);
    for (size_t i = 0; i < argc; i++) {
        memcpy(at, argv[i], lens[i]);
        at[lens[i]] = '\0';
        kept->argv[i] = at;
        kept->lens[i] = lens[i];
        at += lens[i] + 1;
    }
    return kept;
}

struct bytes
kept_argument(const struct kept_arguments *kept, size_t at)
{
    return (struct bytes){(const unsigned char *)kept->argv[at], kept->lens[at]};
}

size_t
kept_bytes(const struct kept_arguments *kept)
{
    size_t bytes = 0;

    for (size_t i = 0; i < kept->argc; i++)
        bytes += kept->lens[i];
    return bytes;
}
