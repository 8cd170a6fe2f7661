/* warning_throttle.c: count denied and incomplete changes; warn at each power of ten. */
#include "output/output.h"

#include "common/hashfn.h"
#include "replication/walsender.h"
#include "utils/hsearch.h"
#include "utils/timestamp.h"

#include "decoder.h"
#include "encode/encode.h"

/* subject, kind and reason; the reason may be empty */
#define WARNING_TEXTS 3

/*
 * The maximum size of the warnings that replay keeps in memory, approximately. Beyond this size a
 * new generation starts.
 */
#define GENERATION_BYTES (16 * 1024 * 1024)

/*
 * The number of counters. Beyond it all warnings of a kind share a counter, until a warning of a
 * new rule finds that the counters are older than this time, and restarts all of them.
 */
#define COUNTERS_MAX 10000
#define COUNTERS_US (USECS_PER_SEC * SECS_PER_HOUR)

struct throttled_warning {
    uint64 key;
    uint64 count;
    uint64 next_report; /* the next power of ten */
    uint64 seed;
    const char *what;
    struct throttled_warning *next; /* counted after this one the last time, or NULL */
    /* For stream blocks. The spool contains the warning if its generation is the current one. */
    uint64 generation;
    uint32 number;   /* in the generation */
    uint32 deferred; /* changes since the last record of counts */
};

struct warnings {
    HTAB *counters;                 /* struct throttled_warning, by key */
    TimestampTz started;            /* when the first of them was counted */
    struct throttled_warning *last; /* the last one counted, or NULL */
    uint64 generation;
    uint32 spooled; /* number of warnings of the generation */
    Size spooled_bytes;
    struct throttled_warning **deferred; /* those with deferred changes, in order */
    int deferred_count;
    int deferred_room;
};

static void
start_counters(struct warnings *warnings, MemoryContext context)
{
    HASHCTL control = {
        .keysize = sizeof(uint64), .entrysize = sizeof(struct throttled_warning), .hcxt = context};

    warnings->counters =
        hash_create("clairon warnings", 16, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
    warnings->started = GetCurrentTimestamp();
    warnings->last = NULL;
}

void
warning_setup(struct decoder *decoder)
{
    struct warnings *warnings = MemoryContextAllocZero(decoder->context, sizeof(*warnings));

    start_counters(warnings, decoder->context);
    warnings->deferred_room = 16;
    warnings->deferred = MemoryContextAlloc(decoder->context, sizeof(struct throttled_warning *) *
                                                                  warnings->deferred_room);
    decoder->warnings = warnings;
}

static uint64
key_of(uint64 seed, const char *what)
{
    return hash_bytes_extended((const unsigned char *)what, strlen(what), seed);
}

/* Restarts old counters, to which no deferred warning refers. Returns false otherwise. */
static bool
make_room(struct decoder *decoder)
{
    struct warnings *warnings = decoder->warnings;

    if (hash_get_num_entries(warnings->counters) < COUNTERS_MAX)
        return true;
    if (warnings->deferred_count > 0 || GetCurrentTimestamp() - warnings->started < COUNTERS_US)
        return false;
    hash_destroy(warnings->counters);
    start_counters(warnings, decoder->context);
    return true;
}

static struct throttled_warning *
look_up(struct decoder *decoder, uint64 seed, const char *what)
{
    struct warnings *warnings = decoder->warnings;
    uint64 key = key_of(seed, what);
    struct throttled_warning *throttled_warning;
    bool found;

    throttled_warning = hash_search(warnings->counters, &key, HASH_FIND, NULL);
    if (throttled_warning != NULL)
        return throttled_warning;
    if (!make_room(decoder))
        key = key_of(0, what);
    throttled_warning = hash_search(warnings->counters, &key, HASH_ENTER, &found);
    if (!found)
        *throttled_warning = (struct throttled_warning){.key = key, .next_report = 1};
    return throttled_warning;
}

/*
 * Successive rows often cause the same warnings in the same order, so the next one is guessed.
 * `what` is a string literal, so equal addresses are equal texts.
 */
static struct throttled_warning *
find(struct decoder *decoder, uint64 seed, const char *what)
{
    struct warnings *warnings = decoder->warnings;
    struct throttled_warning *next = warnings->last == NULL ? NULL : warnings->last->next;

    if (next == NULL || next->what != what || next->seed != seed) {
        next = look_up(decoder, seed, what);
        next->seed = seed;
        next->what = what;
        if (warnings->last != NULL)
            warnings->last->next = next;
    }
    warnings->last = next;
    return next;
}

static void
report(const struct throttled_warning *throttled_warning, const char *subject, const char *what,
       const char *reason)
{
    unsigned long long times = throttled_warning->count;

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

/* Reports each power of ten that the count reaches. */
static void
count(struct throttled_warning *throttled_warning, uint64 changes, const char *subject,
      const char *what, const char *reason)
{
    uint64 end = throttled_warning->count + changes;

    for (; throttled_warning->next_report <= end; throttled_warning->next_report *= 10) {
        throttled_warning->count = throttled_warning->next_report;
        report(throttled_warning, subject, what, reason);
    }
    throttled_warning->count = end;
}

void
warning_begin_block(struct decoder *decoder)
{
    struct warnings *warnings = decoder->warnings;

    warnings->generation++;
    warnings->spooled = 0;
    warnings->spooled_bytes = 0;
}

/* Most changes of a table cause the same warnings, so one run usually contains all counts. */
static struct spool_count
next_run(struct warnings *warnings, int at)
{
    const struct throttled_warning *first = warnings->deferred[at];
    struct spool_count run = {.first = first->number, .changes = first->deferred};

    for (; at < warnings->deferred_count; at++, run.length++) {
        struct throttled_warning *throttled_warning = warnings->deferred[at];

        if (throttled_warning->number != run.first + run.length ||
            throttled_warning->deferred != run.changes)
            break;
    }
    return run;
}

void
warning_spool_counts(struct decoder *decoder)
{
    struct warnings *warnings = decoder->warnings;
    struct spool_record record;
    StringInfo out;

    if (warnings->deferred_count == 0)
        return;
    out = spool_open(decoder, SPOOL_COUNTS, 0, &record);
    for (int at = 0; at < warnings->deferred_count; record.number++) {
        struct spool_count run = next_run(warnings, at);

        encode_raw(out, (const char *)&run, sizeof(run));
        at += (int)run.length;
    }
    spool_close(decoder, &record);
    for (int i = 0; i < warnings->deferred_count; i++)
        warnings->deferred[i]->deferred = 0;
    warnings->deferred_count = 0;
}

static void
spool_warning(struct decoder *decoder, struct throttled_warning *throttled_warning, uint64 seed,
              const char *const texts[WARNING_TEXTS])
{
    struct warnings *warnings = decoder->warnings;
    struct spool_record record;
    StringInfo out;

    if (warnings->spooled_bytes > GENERATION_BYTES) {
        warning_spool_counts(decoder);
        warning_begin_block(decoder);
    }
    out = spool_open(decoder, SPOOL_WARNING, warnings->spooled, &record);
    encode_raw(out, (const char *)&seed, sizeof(seed));
    for (int i = 0; i < WARNING_TEXTS; i++)
        encode_raw(out, texts[i], strlen(texts[i]) + 1);
    spool_close(decoder, &record);
    warnings->spooled_bytes += record.size;
    throttled_warning->generation = warnings->generation;
    throttled_warning->number = warnings->spooled++;
}

/*
 * The transaction may still be rolled back, so the spool gets the warning, once in a generation,
 * and the number of its changes, once in a subtransaction or block: it does not grow with the
 * denials of a change.
 */
static void
defer(struct decoder *decoder, uint64 seed, const char *const texts[WARNING_TEXTS])
{
    struct warnings *warnings = decoder->warnings;
    struct throttled_warning *throttled_warning = find(decoder, seed, texts[1]);

    if (throttled_warning->generation != warnings->generation)
        spool_warning(decoder, throttled_warning, seed, texts);
    if (throttled_warning->deferred++ > 0)
        return;
    if (warnings->deferred_count == warnings->deferred_room) {
        warnings->deferred_room *= 2;
        warnings->deferred = repalloc(warnings->deferred,
                                      sizeof(struct throttled_warning *) * warnings->deferred_room);
    }
    warnings->deferred[warnings->deferred_count++] = throttled_warning;
}

void
warning_count(struct decoder *decoder, uint64 seed, const char *subject, const char *what)
{
    if (decoder->spool != NULL)
        defer(decoder, seed, (const char *const[]){subject, what, ""});
    else
        warning_count_now(decoder, seed, subject, what);
}

void
warning_count_now(struct decoder *decoder, uint64 seed, const char *subject, const char *what)
{
    count(find(decoder, seed, what), 1, subject, what, NULL);
}

void
warning_count_reason(struct decoder *decoder, uint64 seed, const char *subject, const char *what,
                     const char *reason)
{
    if (decoder->spool != NULL)
        defer(decoder, seed, (const char *const[]){subject, what, reason});
    else
        count(find(decoder, seed, what), 1, subject, what, reason);
}

void
warning_replay(struct decoder *decoder, const char *body, uint32 changes)
{
    const char *texts[WARNING_TEXTS];
    uint64 seed;

    memcpy(&seed, body, sizeof(seed));
    body += sizeof(seed);
    for (int i = 0; i < WARNING_TEXTS; i++) {
        texts[i] = body;
        body += strlen(body) + 1;
    }
    count(look_up(decoder, seed, texts[1]), changes, texts[0], texts[1],
          texts[2][0] == '\0' ? NULL : texts[2]);
}
