/*
 * stored_keys.c: the last keys that were fetched from the issuers of tokens, in the store. A relay
 * that starts while a provider is away uses them until a fetch succeeds.
 *
 * A program that can write to the store can also add tickets, which are claims without a signature.
 * So keys in the store need no further protection.
 */
#include "gate/http/stored_keys.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <ev.h>
#include <openssl/sha.h>

#include "base/memory.h"
#include "store/store.h"

#define CHECK_S 0.1 /* until the store is up */

/* What a request to the store refers to; it may outlive the gate. */
struct stored_call {
    struct stored_issuer *issuer; /* NULL: closed */
    unsigned saves;               /* of the text that is saved */
};

struct stored_issuer {
    struct stored_keys *stored;
    char name[2 * SHA256_DIGEST_LENGTH + 1]; /* "": without a URL */
    bool must_read;
    char *text; /* to be saved; NULL: none */
    size_t len;
    unsigned saves;           /* number of texts so far */
    struct stored_call *call; /* in flight; NULL: none */
};

struct stored_keys {
    struct ev_loop *loop;
    struct store *store;
    stored_keys_read *read;
    void *ctx;
    ev_timer timer; /* runs while a request is to be sent */
    size_t count;
    struct stored_issuer *issuers;
};

static bool
has_work(const struct stored_issuer *issuer)
{
    return issuer->call != NULL || issuer->must_read || issuer->text != NULL;
}

/* Frees the call. Returns its issuer, or NULL if the gate is closed. */
static struct stored_issuer *
end_call(struct stored_call *call)
{
    struct stored_issuer *issuer = call->issuer;

    if (issuer != NULL)
        issuer->call = NULL;
    free(call);
    return issuer;
}

static void
on_saved(void *ctx, enum rc rc)
{
    const unsigned saves = ((struct stored_call *)ctx)->saves;
    struct stored_issuer *issuer = end_call(ctx);

    if (issuer == NULL || rc != RC_OK || saves != issuer->saves)
        return; /* repeated while there is a text */
    free(issuer->text);
    issuer->text = NULL;
}

static void
on_read(void *ctx, enum rc rc, struct bytes text)
{
    struct stored_issuer *issuer = end_call(ctx);

    if (issuer == NULL || rc != RC_OK)
        return;
    issuer->must_read = false;
    if (text.len > 0)
        issuer->stored->read(issuer->stored->ctx, (size_t)(issuer - issuer->stored->issuers), text);
}

/* Reads before it saves: a fetch may have succeeded meanwhile, which makes the reply useless. */
static void
send_next(struct store *store, struct stored_issuer *issuer)
{
    struct stored_call *call;
    enum rc rc;

    if (issuer->call != NULL || !has_work(issuer))
        return;
    call = memory_new(sizeof(*call));
    *call = (struct stored_call){.issuer = issuer, .saves = issuer->saves};
    issuer->call = call;
    if (issuer->must_read)
        rc = store_read_issuer_keys(store, issuer->name, on_read, call);
    else
        rc = store_save_issuer_keys(store, issuer->name, issuer->text, issuer->len, on_saved, call);
    if (rc != RC_OK)
        (void)end_call(call);
}

static void
on_check(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct stored_keys *stored = timer->data;
    bool is_done = true;

    (void)events;
    for (size_t i = 0; i < stored->count; i++) {
        send_next(stored->store, &stored->issuers[i]);
        is_done = is_done && !has_work(&stored->issuers[i]);
    }
    if (is_done)
        ev_timer_stop(loop, timer);
}

struct stored_keys *
stored_keys_open(struct ev_loop *loop, struct store *store, size_t count, stored_keys_read *read,
                 void *ctx)
{
    struct stored_keys *stored = memory_new(sizeof(*stored));

    *stored = (struct stored_keys){
        .loop = loop, .store = store, .read = read, .ctx = ctx, .count = count};
    stored->issuers = memory_new((count + 1) * sizeof(*stored->issuers));
    ev_timer_init(&stored->timer, on_check, 0.0, CHECK_S);
    stored->timer.data = stored;
    return stored;
}

void
stored_keys_close(struct stored_keys *stored)
{
    if (stored == NULL)
        return;
    ev_timer_stop(stored->loop, &stored->timer);
    for (size_t i = 0; i < stored->count; i++) {
        if (stored->issuers[i].call != NULL)
            stored->issuers[i].call->issuer = NULL;
        free(stored->issuers[i].text);
    }
    free(stored->issuers);
    free(stored);
}

void
stored_keys_add(struct stored_keys *stored, size_t issuer, const char *name, const char *url)
{
    struct stored_issuer *added = &stored->issuers[issuer];
    unsigned char digest[SHA256_DIGEST_LENGTH];
    size_t name_len = strlen(name) + 1, len = name_len + strlen(url);
    char *text = memory_new(len);

    memcpy(text, name, name_len);
    memcpy(text + name_len, url, len - name_len);
    SHA256((const unsigned char *)text, len, digest);
    free(text);
    added->stored = stored;
    bytes_hex(digest, sizeof(digest), added->name);
    added->must_read = true;
    ev_timer_start(stored->loop, &stored->timer);
}

void
stored_keys_save(struct stored_keys *stored, size_t issuer, const char *text, size_t len)
{
    struct stored_issuer *saved = &stored->issuers[issuer];

    free(saved->text);
    saved->text = memory_text(text, len);
    saved->len = len;
    saved->saves++;
    if (!ev_is_active(&stored->timer))
        ev_timer_again(stored->loop, &stored->timer);
}
