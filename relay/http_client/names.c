/* names.c: bounded numbers of known names, and of lookups in progress. */
#include "http_client/names.h"

#include <stdlib.h>
#include <string.h>

#include "base/addresses.h"
#include "base/clock.h"

#define AGE_US (60 * INT64_C(1000000)) /* then a name is looked up again */
#define NAMES_MAX 64                   /* names that are kept without users */
#define LOOKUPS_MAX 8                  /* child processes */

struct name *
name_ref(struct names *names, const char *text, bool is_numeric)
{
    size_t len = strlen(text);
    struct name *name;

    HASH_FIND(hh, names->all, text, len, name);
    if (name == NULL) {
        name = memory_new(sizeof(*name) + len + 1);
        memcpy(name->text, text, len);
        name->names = names;
        name->is_numeric = is_numeric;
        buffer_init(&name->addresses, NAME_ADDRESSES_MAX);
        HASH_ADD_KEYPTR(hh, names->all, name->text, len, name);
    }
    name->users++;
    return name;
}

static void
name_free(struct name *name)
{
    resolve_stop(name->lookup);
    HASH_DEL(name->names->all, name);
    buffer_free(&name->addresses);
    free(name);
}

/* Frees the oldest names without users. */
static void
limit(struct names *names)
{
    struct name *name, *next;

    HASH_ITER (hh, names->all, name, next) {
        if (HASH_COUNT(names->all) <= NAMES_MAX)
            return;
        if (name->users == 0 && name->lookup == NULL)
            name_free(name);
    }
}

void
name_unref(struct name *name)
{
    name->users--;
    limit(name->names);
}

bool
name_is_known(const struct name *name)
{
    return name->is_numeric ||
           (name->found_us != 0 && clock_monotonic_us() - name->found_us < AGE_US);
}

static void
on_resolved(void *ctx, const struct resolved *found, size_t count, const char *error)
{
    struct name *name = ctx;
    struct names *names = name->names;

    name->lookup = NULL;
    names->lookup_count--;
    buffer_clear(&name->addresses);
    for (size_t i = 0; i < count; i++) {
        bool is_ipv6 = strchr(found[i].address, ':') != NULL;

        if (buffer_addf(&name->addresses, "%s%s%s%s", i > 0 ? "," : "", is_ipv6 ? "[" : "",
                        found[i].address, is_ipv6 ? "]" : "") != RC_OK)
            break;
    }
    name->found_us = count > 0 ? clock_monotonic_us() : 0;
    names->done(names->ctx, name, count > 0 ? NULL : error);
    limit(names); /* its users may have left during the lookup */
}

enum rc
name_look_up(struct name *name)
{
    struct names *names = name->names;
    const char *text = name->text;

    if (name->lookup != NULL)
        return RC_OK;
    if (names->lookup_count >= LOOKUPS_MAX)
        return RC_LIMIT;
    name->lookup = resolve_start(names->loop, &text, 1, on_resolved, name);
    if (name->lookup == NULL)
        return RC_IO;
    names->lookup_count++;
    return RC_OK;
}

void
names_free(struct names *names)
{
    struct name *name, *next;

    HASH_ITER (hh, names->all, name, next)
        name_free(name);
}
