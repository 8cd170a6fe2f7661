/*
 * cutoffs.c: the cut-offs of the store, in memory: each token is compared with them when it is
 * verified, and when a cut-off arrives.
 *
 * The store announces each change in the control stream. All are read when the store goes up, and
 * when changes may have been missed; what that read did not find is removed.
 */
#include "gate/http/auth.h"

#include <stdlib.h>

#include <ev.h>
#include <uthash.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "gate/net/gate_shared.h"
#include "hub/hub.h"
#include "store/store.h"
#include "wire/cutoff.h"

#define RETRY_S 1.0
#define KEPT_MAX (STORE_CUTOFFS_MAX + STORE_CUTOFFS_MAX / 10) /* with those that have ended */

struct kept_cutoff {
    struct cutoff cutoff;
    unsigned read; /* number of the read that found it, or during which it was announced */
    UT_hash_handle hh;
};

struct gate_cutoffs {
    struct gate *gate; /* NULL: closed while a read is in progress */
    gate_cutoffs_added *added;
    struct hub_cutoffs receiver;
    struct kept_cutoff *list; /* uthash: by digest */
    struct throttle removed;
    ev_timer retry;
    unsigned read; /* number of the last read */
    bool is_reading;
    bool is_stale; /* read again when the read in progress has ended */
    bool is_known; /* a read was complete */
};

static struct kept_cutoff *
find_cutoff(const struct gate_cutoffs *cutoffs, const struct cutoff_digest *digest)
{
    struct kept_cutoff *kept;

    HASH_FIND(hh, cutoffs->list, digest, sizeof(*digest), kept);
    return kept;
}

static void
remove_kept(struct gate_cutoffs *cutoffs, struct kept_cutoff *kept)
{
    HASH_DEL(cutoffs->list, kept);
    free(kept);
}

static void
remove_ended(struct gate_cutoffs *cutoffs)
{
    const int64_t now_s = clock_wall_us() / 1000000;
    struct kept_cutoff *kept, *next;

    HASH_ITER (hh, cutoffs->list, kept, next)
        if (kept->cutoff.ends_s <= now_s)
            remove_kept(cutoffs, kept);
}

static struct kept_cutoff *
find_or_add(struct gate_cutoffs *cutoffs, const struct cutoff_digest *digest)
{
    struct kept_cutoff *kept = find_cutoff(cutoffs, digest);

    if (kept == NULL) {
        if (HASH_COUNT(cutoffs->list) >= KEPT_MAX)
            remove_ended(cutoffs);
        kept = memory_new(sizeof(*kept));
        kept->cutoff.digest = *digest;
        HASH_ADD(hh, cutoffs->list, cutoff.digest, sizeof(kept->cutoff.digest), kept);
    }
    kept->read = cutoffs->read;
    return kept;
}

/*
 * The store extends a cut-off and never shortens it. An announcement may arrive after a read or a
 * response that had a later one.
 */
static void
extend(struct gate_cutoffs *cutoffs, const struct cutoff *cutoff)
{
    struct cutoff *own = &find_or_add(cutoffs, &cutoff->digest)->cutoff;

    if (own->issued_s < cutoff->issued_s)
        own->issued_s = cutoff->issued_s;
    if (own->ends_s < cutoff->ends_s)
        own->ends_s = cutoff->ends_s;
}

/* The store has too many cut-offs: it has removed the one that ends first. */
static void
remove_first(struct gate_cutoffs *cutoffs, const struct cutoff *cutoff)
{
    struct kept_cutoff *kept = find_cutoff(cutoffs, &cutoff->digest);
    const int64_t ends_s = kept != NULL ? kept->cutoff.ends_s : 0;
    char digest[CUTOFF_DIGEST_TEXT + 1], ends[CLOCK_TEXT_MAX];
    unsigned skipped = 0;

    if (cutoffs->is_reading) /* until the end of the read, which may still find it */
        find_or_add(cutoffs, &cutoff->digest)->cutoff = *cutoff;
    if (kept == NULL)
        return;
    cutoff_write_digest(cutoff, digest);
    clock_text_ms(ends_s * 1000, ends);
    if (throttle_allows(&cutoffs->removed, clock_monotonic_us(), &skipped))
        log_warn("gate", "too many cut-offs: the one that ends first was removed",
                 LOG_TEXT("digest", digest), LOG_TEXT("until", ends),
                 LOG_UINT("limit", STORE_CUTOFFS_MAX), LOG_UINT("suppressed", skipped));
    if (!cutoffs->is_reading)
        remove_kept(cutoffs, kept);
}

void
gate_cutoffs_add(struct gate *gate, const struct cutoff *cutoff)
{
    extend(gate->cutoffs, cutoff);
    gate->cutoffs->added(gate, cutoff);
}

static void
on_cutoff(void *ctx, const struct cutoff *cutoff)
{
    struct gate_cutoffs *cutoffs = ctx;

    if (cutoff->ends_s == 0)
        remove_first(cutoffs, cutoff);
    else
        gate_cutoffs_add(cutoffs->gate, cutoff);
}

/* ---- reading all of them */

static void start_read(struct gate_cutoffs *cutoffs);

static void
on_read_one(void *ctx, const struct cutoff *cutoff)
{
    struct gate_cutoffs *cutoffs = ctx;
    const struct kept_cutoff *kept;
    bool is_removed;

    if (cutoffs->gate == NULL)
        return;
    kept = find_cutoff(cutoffs, &cutoff->digest);
    is_removed = kept != NULL && kept->read == cutoffs->read && kept->cutoff.ends_s == 0;
    if (!is_removed)
        extend(cutoffs, cutoff);
}

static void
on_read(void *ctx, enum rc rc)
{
    struct gate_cutoffs *cutoffs = ctx;
    struct kept_cutoff *kept, *next;

    cutoffs->is_reading = false;
    if (cutoffs->gate == NULL) {
        free(cutoffs);
        return;
    }
    if (rc == RC_OK) {
        HASH_ITER (hh, cutoffs->list, kept, next)
            if (kept->read != cutoffs->read || kept->cutoff.ends_s == 0)
                remove_kept(cutoffs, kept);
        cutoffs->is_known = true;
    } else {
        ev_timer_again(cutoffs->gate->loop, &cutoffs->retry);
    }
    cutoffs->added(cutoffs->gate, NULL);
    if (rc == RC_OK && cutoffs->is_stale)
        start_read(cutoffs);
}

/* Without the store it is started again when the store is up. */
static void
start_read(struct gate_cutoffs *cutoffs)
{
    ev_timer_stop(cutoffs->gate->loop, &cutoffs->retry);
    cutoffs->is_stale = cutoffs->is_reading;
    if (cutoffs->is_reading)
        return;
    cutoffs->read++;
    cutoffs->is_reading =
        store_read_cutoffs(hub_store(cutoffs->gate->hub), on_read_one, on_read, cutoffs) == RC_OK;
    if (!cutoffs->is_reading)
        ev_timer_again(cutoffs->gate->loop, &cutoffs->retry);
}

static void
on_retry(struct ev_loop *loop, struct ev_timer *timer, int events)
{
    (void)loop;
    (void)events;
    start_read(timer->data);
}

static void
on_missed(void *ctx)
{
    start_read(ctx);
}

/* ---- tokens */

bool
gate_cutoffs_are_known(const struct gate *gate)
{
    return gate->cutoffs == NULL || gate->cutoffs->is_known;
}

bool
gate_cutoffs_reject(const struct gate *gate, const struct cutoff_marks *marks)
{
    const struct cutoff_digest *const digests[] = {&marks->user, &marks->token, &marks->session};
    const int64_t now_s = clock_wall_us() / 1000000;

    if (gate->cutoffs == NULL || gate->cutoffs->list == NULL)
        return false;
    for (size_t i = 0; i < sizeof(digests) / sizeof(digests[0]); i++) {
        const struct kept_cutoff *kept = find_cutoff(gate->cutoffs, digests[i]);

        if (kept != NULL && cutoff_rejects(&kept->cutoff, marks, now_s))
            return true;
    }
    return false;
}

/* ---- life */

void
gate_cutoffs_open(struct gate *gate, gate_cutoffs_added *added)
{
    struct gate_cutoffs *cutoffs;

    if (gate->hub == NULL)
        return;
    cutoffs = memory_new(sizeof(*cutoffs));
    *cutoffs = (struct gate_cutoffs){
        .gate = gate, .added = added, .receiver = {on_cutoff, on_missed, cutoffs}};
    ev_init(&cutoffs->retry, on_retry);
    cutoffs->retry.repeat = RETRY_S;
    cutoffs->retry.data = cutoffs;
    gate->cutoffs = cutoffs;
    hub_set_cutoffs(gate->hub, &cutoffs->receiver);
    start_read(cutoffs);
}

void
gate_cutoffs_close(struct gate *gate)
{
    struct gate_cutoffs *cutoffs = gate->cutoffs;
    struct kept_cutoff *kept, *next;

    if (cutoffs == NULL)
        return;
    hub_set_cutoffs(gate->hub, NULL);
    ev_timer_stop(gate->loop, &cutoffs->retry);
    HASH_ITER (hh, cutoffs->list, kept, next)
        remove_kept(cutoffs, kept);
    cutoffs->gate = NULL;
    if (!cutoffs->is_reading) /* otherwise on_read frees it */
        free(cutoffs);
}
