/* warning_throttle.c: count denied and incomplete changes; warn at each power of ten. */
#include "output/warning_throttle.h"

#include "common/hashfn.h"
#include "replication/walsender.h"
#include "utils/hsearch.h"

#include "decoder.h"
#include "encode/encode.h"
#include "output/spool.h"

struct throttled_warning {
    uint64 key;
    uint64 count;
};

void
warning_setup(struct decoder *decoder)
{
    HASHCTL control = {.keysize = sizeof(uint64),
                       .entrysize = sizeof(struct throttled_warning),
                       .hcxt = decoder->context};

    decoder->warnings =
        hash_create("clairon warnings", 16, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

static bool
is_power_of_ten(uint64 count)
{
    while (count % 10 == 0)
        count /= 10;
    return count == 1;
}

/* Spools the warning: the transaction may still be rolled back. */
static void
defer(struct decoder *decoder, uint64 seed, const char *const texts[3])
{
    struct spool_record record;
    StringInfo out = spool_open(decoder, SPOOL_WARNING, texts[2] == NULL ? 2 : 3, &record);

    encode_raw(out, (const char *)&seed, sizeof(seed));
    for (int i = 0; i < 3 && texts[i] != NULL; i++)
        encode_raw(out, texts[i], strlen(texts[i]) + 1);
    spool_close(decoder, &record);
}

static struct throttled_warning *
find(struct decoder *decoder, uint64 seed, const char *what)
{
    uint64 key = hash_bytes_extended((const unsigned char *)what, strlen(what), seed);
    struct throttled_warning *throttled_warning;
    bool found;

    throttled_warning = hash_search(decoder->warnings, &key, HASH_ENTER, &found);
    if (!found)
        throttled_warning->count = 0;
    return throttled_warning;
}

static void
count(struct throttled_warning *throttled_warning, const char *subject, const char *what,
      const char *reason)
{
    unsigned long long times = ++throttled_warning->count;

    if (!is_power_of_ten(times))
        return;
    /* Clients of a walsender ignore warnings, so warnings are logged on the server. */
    ereport(am_walsender ? LOG : WARNING,
            (errmsg("clairon %s: %s", subject, what),
             reason == NULL
                 ? errdetail_plural("The warning applies to %llu change so far.",
                                    "The warning applies to %llu changes so far.",
                                    (unsigned long)times, times)
                 : errdetail_plural(
                       "The warning applies to %llu change so far. The last error was: %s",
                       "The warning applies to %llu changes so far. The last error was: %s",
                       (unsigned long)times, times, reason)));
}

void
warning_count(struct decoder *decoder, uint64 seed, const char *subject, const char *what)
{
    if (decoder->spool != NULL)
        defer(decoder, seed, (const char *const[]){subject, what, NULL});
    else
        warning_count_now(decoder, seed, subject, what);
}

/* Successive rows often cause the same warning: cache the last lookup. */
void
warning_count_now(struct decoder *decoder, uint64 seed, const char *subject, const char *what)
{
    if (decoder->last_warning.what != what || decoder->last_warning.seed != seed) {
        decoder->last_warning.throttled_warning = find(decoder, seed, what);
        decoder->last_warning.what = what;
        decoder->last_warning.seed = seed;
    }
    count(decoder->last_warning.throttled_warning, subject, what, NULL);
}

void
warning_count_reason(struct decoder *decoder, uint64 seed, const char *subject, const char *what,
                     const char *reason)
{
    if (decoder->spool != NULL)
        defer(decoder, seed, (const char *const[]){subject, what, reason});
    else
        count(find(decoder, seed, what), subject, what, reason);
}
