/*
 * token_keys.c: the keys of the issuers of tokens. Those of a URL are fetched at the start, when
 * their max-age ends, at SIGHUP, and when a token names an unknown key. A failed fetch changes
 * nothing: a provider that is away, or sends something else, keeps its last keys. If the first
 * fetch fails, the last keys are those in the store.
 */
#include "gate/http/auth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <ev.h>
#include <openssl/sha.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/rates.h"
#include "http_client/http_client.h"
#include "store/store.h"

#define FETCH_TIMEOUT_MS 5000
#define FETCH_INTERVAL_US ((int64_t)60 * 1000000) /* of fetches because of unknown keys */
#define AGE_DEFAULT_MS ((int64_t)3600 * 1000)
#define RETRY_BASE_MS 2000
#define RETRY_CAP_MS 60000
#define CONNECTIONS 4
#define STORED_CHECK_S 0.1 /* until the store is up */

/*
 * ---- the last keys that were fetched, in the store
 *
 * A relay that starts while a provider is away uses them until a fetch succeeds. A program that can
 * write to the store can also add tickets, which are claims without a signature. So keys in the
 * store need no further protection.
 */

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

/* Called once for each issuer, unless the store has no keys of it. Valid during the callback. */
typedef void stored_keys_read(void *ctx, size_t issuer, struct bytes text);

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

/* Reads the keys of the issuers that are added, as soon as the store is up. */
static struct stored_keys *
stored_keys_open(struct ev_loop *loop, struct store *store, size_t count, stored_keys_read *read,
                 void *ctx)
{
    struct stored_keys *stored = memory_new(sizeof(*stored));

    *stored = (struct stored_keys){
        .loop = loop, .store = store, .read = read, .ctx = ctx, .count = count};
    stored->issuers = memory_new((count + 1) * sizeof(*stored->issuers));
    ev_timer_init(&stored->timer, on_check, 0.0, STORED_CHECK_S);
    stored->timer.data = stored;
    return stored;
}

static void
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

/*
 * `issuer`: a number below `count`. The keys are stored under a hash of its name and URL: keys of
 * another URL are not those of the issuer.
 */
static void
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

/* Stores the keys that were fetched, as soon as the store is up. The text is copied. */
static void
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

/* ---- the issuers */

/* The URL of an issuer. */
struct source {
    struct gate_keys *keys;
    size_t issuer;                /* index in the rules */
    const char *name;             /* "auth", or the NAME of [issuer NAME] */
    const char *url;              /* NULL: none */
    struct http_request *request; /* NULL: no fetch in progress */
    ev_timer timer;               /* the next fetch */
    struct backoff retry;         /* of failed fetches */
    int64_t unknown_us;           /* last fetch because of an unknown key; 0: none */
    bool is_awaited;              /* requests wait for the end of the fetch */
    bool has_failed;              /* the last fetch */
    struct key_set stored;        /* of the store, until a fetch has succeeded or failed */
    char *text;                   /* the keys as they were fetched */
    size_t text_len;
};

struct gate_keys {
    struct ev_loop *loop;
    const struct config *config;
    gate_keys_changed *changed;
    void *ctx;
    struct token_rules rules;
    struct source *sources;     /* one for each issuer of the rules */
    struct http_client *client; /* NULL: no URLs */
    struct stored_keys *stored; /* NULL: no URLs, or no store */
};

/* ---- keys of the settings */

static struct token_issuer
issuer_of(const struct config_claims *claims, const struct config_jwks *jwks)
{
    return (struct token_issuer){.issuer = claims->issuer,
                                 .is_fetched = jwks->url != NULL,
                                 .audience = claims->audience,
                                 .audience_claim = claims->audience_claim,
                                 .required = claims->required,
                                 .user_claim = claims->user_claim,
                                 .groups_claim = claims->groups_claim};
}

/* False: the file has no valid JWK Set. */
static bool
add_file(struct key_set *set, const struct config_jwks *jwks, char error[KEY_SET_ERROR_MAX])
{
    return jwks->text == NULL || key_set_add_jwks(set, jwks->text, jwks->len, true, error) == RC_OK;
}

static void
add_key(struct key_set *set, const struct config *config, const char *bytes, size_t len)
{
    if (bytes == NULL)
        return;
    if (config->auth.public_key_file == NULL)
        key_set_add_secret(set, bytes, len);
    else if (key_set_add_pem(set, bytes, len) != RC_OK)
        log_error("gate", "could not read the auth key"); /* config_load has checked it */
}

/* Replaces the keys of files. Those of a file without a valid JWK Set are kept. */
static void
read_files(struct gate_keys *keys)
{
    const struct config *config = keys->config;

    for (size_t i = 0; i < keys->rules.count; i++) {
        struct token_issuer *issuer = &keys->rules.issuers[i];
        const struct config_jwks *jwks =
            issuer->is_default ? &config->auth.jwks : &config->issuers[i].jwks;
        char error[KEY_SET_ERROR_MAX];
        struct key_set set = {0};

        if (!add_file(&set, jwks, error)) {
            log_error("gate", "could not read the keys of an issuer: previous keys still in use",
                      LOG_TEXT("issuer", keys->sources[i].name), LOG_TEXT("path", jwks->file),
                      LOG_TEXT("error", error));
            continue;
        }
        if (set.skipped > 0)
            log_warn("gate", "keys of an issuer are not usable",
                     LOG_TEXT("issuer", keys->sources[i].name), LOG_TEXT("path", jwks->file),
                     LOG_UINT("count", set.skipped));
        if (issuer->is_default) {
            add_key(&set, config, config->auth.key, config->auth.key_len);
            add_key(&set, config, config->auth.previous, config->auth.previous_len);
        }
        key_set_free(&issuer->keys);
        issuer->keys = set;
    }
}

enum rc
gate_keys_check(const struct config *config, char *error, size_t room)
{
    char reason[KEY_SET_ERROR_MAX];
    struct key_set set = {0};
    const struct config_issuer *issuer = NULL;
    bool is_valid = add_file(&set, &config->auth.jwks, reason);

    key_set_free(&set);
    for (size_t i = 0; i < config->issuer_count && is_valid; i++) {
        issuer = &config->issuers[i];
        is_valid = add_file(&set, &issuer->jwks, reason);
        key_set_free(&set);
    }
    if (is_valid)
        return RC_OK;
    if (issuer == NULL) {
        char where[CONFIG_WHERE_MAX];

        config_where(config, "auth", "jwks_file", where);
        (void)snprintf(error, room, "%s: \"%.256s\" %s", where, config->auth.jwks.file, reason);
    } else {
        (void)snprintf(error, room, "%.384s:%u: [issuer %s] jwks_file: \"%.256s\" %s", config->path,
                       issuer->line, issuer->name, issuer->jwks.file, reason);
    }
    return RC_BAD;
}

/* ---- keys of URLs */

int64_t
gate_keys_age_ms(const char *cache_control)
{
    static const char MAX_AGE[] = "max-age=";
    const size_t name_len = sizeof(MAX_AGE) - 1;
    int64_t age_ms = AGE_DEFAULT_MS;

    for (const char *at = cache_control; at != NULL && *at != '\0';) {
        at += strspn(at, ", \t");
        if (strncasecmp(at, MAX_AGE, name_len) == 0) {
            unsigned long seconds = strtoul(at + name_len + (at[name_len] == '"'), NULL, 10);

            age_ms = seconds < GATE_KEYS_AGE_MAX_MS / 1000 ? (int64_t)seconds * 1000
                                                           : GATE_KEYS_AGE_MAX_MS;
        } else if (strncasecmp(at, "no-store", 8) == 0 || strncasecmp(at, "no-cache", 8) == 0) {
            age_ms = 0;
        }
        at += strcspn(at, ",");
    }
    if (age_ms < GATE_KEYS_AGE_MIN_MS)
        return GATE_KEYS_AGE_MIN_MS;
    return age_ms < GATE_KEYS_AGE_MAX_MS ? age_ms : GATE_KEYS_AGE_MAX_MS;
}

static void
fetch_after(struct source *source, double delay_s)
{
    ev_timer_stop(source->keys->loop, &source->timer);
    ev_timer_set(&source->timer, delay_s, 0.0);
    ev_timer_start(source->keys->loop, &source->timer);
}

/* True if the keys differ from the last ones. */
static bool
keep(struct source *source, const struct http_response *response, struct key_set *set)
{
    struct key_set *fetched = &source->keys->rules.issuers[source->issuer].fetched;
    bool is_same = source->text != NULL && source->text_len == response->body_len &&
                   memcmp(source->text, response->body, response->body_len) == 0;

    if (is_same) {
        key_set_free(set);
        return false;
    }
    free(source->text);
    source->text = memory_text(response->body, response->body_len);
    source->text_len = response->body_len;
    key_set_free(fetched);
    *fetched = *set;
    log_info("gate", "keys of an issuer fetched", LOG_TEXT("issuer", source->name),
             LOG_UINT("keys", fetched->count), LOG_UINT("unusable", fetched->skipped));
    return true;
}

/* Uses the keys of the store after a failed fetch, if there are no others. True: they are used. */
static bool
use_stored(struct source *source)
{
    struct key_set *fetched = &source->keys->rules.issuers[source->issuer].fetched;

    if (!source->has_failed || source->stored.count == 0)
        return false;
    key_set_free(fetched);
    *fetched = source->stored;
    source->stored = (struct key_set){0};
    log_info("gate", "last keys of an issuer read from the store", LOG_TEXT("issuer", source->name),
             LOG_UINT("keys", fetched->count));
    return true;
}

static void
on_stored(void *ctx, size_t issuer, struct bytes text)
{
    struct gate_keys *keys = ctx;
    struct source *source = &keys->sources[issuer];
    char error[KEY_SET_ERROR_MAX] = "is larger than 256 kB";

    if (source->text != NULL)
        return; /* the keys were fetched */
    if (text.len > KEY_SET_BYTES_MAX ||
        key_set_add_jwks(&source->stored, (const char *)text.at, text.len, false, error) != RC_OK)
        log_warn("gate", "keys of an issuer in the store are not usable",
                 LOG_TEXT("issuer", source->name), LOG_TEXT("error", error));
    else if (use_stored(source))
        keys->changed(keys->ctx, issuer, false);
}

/* Returns the reason why the response is not used; NULL: none. */
static const char *
response_fault(const struct http_response *response, struct key_set *set,
               char error[KEY_SET_ERROR_MAX])
{
    if (response->rc != RC_OK)
        return response->error;
    if (response->status != 200) {
        (void)snprintf(error, KEY_SET_ERROR_MAX, "status %d", response->status);
        return error;
    }
    if (response->is_truncated)
        return "is larger than 256 kB";
    return key_set_add_jwks(set, response->body, response->body_len, false, error) == RC_OK ? NULL
                                                                                            : error;
}

static void
on_fetched(void *ctx, const struct http_response *response)
{
    struct source *source = ctx;
    struct gate_keys *keys = source->keys;
    const bool is_awaited = source->is_awaited;
    char error[KEY_SET_ERROR_MAX];
    struct key_set set = {0};
    const char *fault = response_fault(response, &set, error);
    bool is_changed = false;

    source->request = NULL;
    source->is_awaited = false;
    source->has_failed = fault != NULL;
    if (fault == NULL) {
        is_changed = keep(source, response, &set);
        key_set_free(&source->stored);
        if (keys->stored != NULL)
            stored_keys_save(keys->stored, source->issuer, source->text, source->text_len);
        backoff_reset(&source->retry);
        fetch_after(source, (double)gate_keys_age_ms(response->headers[0]) / 1000.0);
    } else {
        is_changed = use_stored(source);
        log_warn("gate", "could not fetch the keys of an issuer", LOG_TEXT("issuer", source->name),
                 LOG_TEXT("error", fault),
                 LOG_UINT("keys", keys->rules.issuers[source->issuer].fetched.count),
                 LOG_TEXT("hint", keys->rules.issuers[source->issuer].fetched.count > 0
                                      ? "the last keys are still in use"
                                      : NULL));
        fetch_after(source, (double)backoff_next_ms(&source->retry) / 1000.0);
    }
    if (is_awaited || is_changed)
        keys->changed(keys->ctx, source->issuer, fault == NULL);
}

static void
fetch(struct source *source)
{
    const struct http_request_params params = {
        .method = HTTP_REQUEST_GET,
        .url = source->url,
        .headers = (const char *const[]){"Accept: application/jwk-set+json, "
                                         "application/json",
                                         NULL},
        .timeout_ms = FETCH_TIMEOUT_MS,
        .response_max = KEY_SET_BYTES_MAX,
        .wanted_headers = {"Cache-Control"}};

    if (source->request != NULL)
        return;
    ev_timer_stop(source->keys->loop, &source->timer);
    source->request = http_request_start(source->keys->client, &params, on_fetched, source);
}

static void
on_due(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop;
    (void)events;
    fetch(timer->data);
}

enum rc
gate_keys_fetch(struct gate_keys *keys, size_t issuer)
{
    struct source *source = &keys->sources[issuer];
    const int64_t now_us = clock_monotonic_us();

    if (source->url == NULL || keys->client == NULL)
        return RC_AGAIN;
    if (source->request == NULL) {
        if (source->unknown_us != 0 && now_us - source->unknown_us < FETCH_INTERVAL_US)
            return RC_AGAIN;
        source->unknown_us = now_us;
        fetch(source);
    }
    source->is_awaited = true;
    return RC_OK;
}

/* ---- life */

static void
add_issuer(struct gate_keys *keys, const struct token_issuer *issuer, const char *name,
           const char *url)
{
    const size_t number = keys->rules.count++;
    struct source *source = &keys->sources[number];

    keys->rules.issuers[number] = *issuer;
    *source = (struct source){.keys = keys,
                              .issuer = number,
                              .name = name,
                              .url = url,
                              .retry = {RETRY_BASE_MS, RETRY_CAP_MS, 0}};
    ev_init(&source->timer, on_due);
    source->timer.data = source;
}

const struct token_rules *
gate_keys_rules(const struct gate_keys *keys)
{
    return &keys->rules;
}

/* The sections keep their index in the settings; [auth] is the last one. */
struct gate_keys *
gate_keys_open(struct ev_loop *loop, const struct config *config, struct store *store,
               gate_keys_changed *changed, void *ctx)
{
    struct gate_keys *keys = memory_new(sizeof(*keys));
    const struct http_client_settings settings = {.ca_file = config->auth.jwks_ca,
                                                  .proxy = config->sink.proxy,
                                                  .allow_private = config->auth.jwks_allow_private,
                                                  .connections = CONNECTIONS,
                                                  .host_connections = CONNECTIONS};

    /* A process without these roles serves only health probes and metrics. */
    const bool uses_keys = (config->relay.roles & (CONFIG_ROLE_GATE | CONFIG_ROLE_SINK)) != 0;

    *keys = (struct gate_keys){.loop = loop, .config = config, .changed = changed, .ctx = ctx};
    keys->rules.leeway_s = config->auth.leeway_ms / 1000;
    keys->rules.issuers = memory_new((config->issuer_count + 1) * sizeof(*keys->rules.issuers));
    keys->sources = memory_new((config->issuer_count + 1) * sizeof(*keys->sources));
    for (size_t i = 0; i < config->issuer_count; i++) {
        const struct config_issuer *section = &config->issuers[i];
        struct token_issuer issuer = issuer_of(&section->claims, &section->jwks);

        issuer.user_prefix = section->user_prefix;
        issuer.admin = section->admin;
        issuer.publish = section->publish;
        add_issuer(keys, &issuer, section->name, section->jwks.url);
    }
    if (config->auth.key != NULL || config->auth.jwks.file != NULL ||
        config->auth.jwks.url != NULL) {
        struct token_issuer issuer = issuer_of(&config->auth.claims, &config->auth.jwks);

        issuer.is_default = issuer.admin = issuer.publish = true;
        add_issuer(keys, &issuer, "auth", config->auth.jwks.url);
    }
    read_files(keys);
    if (!uses_keys)
        return keys;
    if (config_fetches_keys(config))
        keys->client = http_client_open(loop, &settings);
    if (keys->client != NULL && store != NULL)
        keys->stored = stored_keys_open(loop, store, keys->rules.count, on_stored, keys);
    for (size_t i = 0; i < keys->rules.count; i++) {
        const struct source *source = &keys->sources[i];

        if (source->url == NULL)
            continue;
        fetch(&keys->sources[i]);
        if (keys->stored != NULL)
            stored_keys_add(keys->stored, i, source->name, source->url);
    }
    return keys;
}

void
gate_keys_reload(struct gate_keys *keys)
{
    read_files(keys);
    for (size_t i = 0; i < keys->rules.count && keys->client != NULL; i++)
        if (keys->sources[i].url != NULL)
            fetch(&keys->sources[i]);
}

void
gate_keys_close(struct gate_keys *keys)
{
    if (keys == NULL)
        return;
    stored_keys_close(keys->stored);
    for (size_t i = 0; i < keys->rules.count; i++) {
        http_request_cancel(keys->sources[i].request);
        ev_timer_stop(keys->loop, &keys->sources[i].timer);
        free(keys->sources[i].text);
        key_set_free(&keys->sources[i].stored);
        key_set_free(&keys->rules.issuers[i].keys);
        key_set_free(&keys->rules.issuers[i].fetched);
    }
    http_client_close(keys->client);
    free(keys->sources);
    free(keys->rules.issuers);
    free(keys);
}
