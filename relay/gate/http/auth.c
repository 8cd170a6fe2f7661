/*
 * auth.c: the credentials of a request: its token, or a ticket if the client cannot set a header;
 * and the expiration of the token.
 */
#include "gate/http/auth.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <openssl/sha.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "gate/http/request.h"
#include "gate/net/gate_shared.h"
#include "hub/hub.h"
#include "store/store.h"
#include "wire/http_head.h"
#include "wire/token.h"

#define AUTHORIZATION_MAX (2 * TOKEN_BYTES_MAX) /* more than a request head */
#define TICKET_ARGUMENT_MAX 64
#define EXPIRING_MIN_US (2 * 1000000)
#define CLAIMS_MAX (1024 * 1024) /* maximum bytes of a token's claims as JSON */

#define VERIFIED_TOKENS 64

/* A token that was verified; its text has the digest. Unused: `user` is NULL. */
struct verified_token {
    unsigned char digest[SHA256_DIGEST_LENGTH];
    struct token token;
};

#define WAITING_MAX 1024   /* tokens that wait for keys; each has at most 8 kB */
#define NO_ISSUER SIZE_MAX /* the keys are known, but not the cut-offs */

/* A token that waits for the keys of its issuer, or for the cut-offs. */
struct token_wait {
    struct gate_redeem redeem;
    struct token_wait *prev, *next;
    bool is_logout; /* a logout token */
    size_t issuer;
    char *text;
    size_t len;
};

struct token_waits {
    struct token_wait *first;
    int count;
};

bool
gate_token_is_cut_off(struct gate *gate, const struct token *token)
{
    const bool is_cut_off = gate_cutoffs_reject(gate, &token->marks);

    if (is_cut_off)
        stats_add(gate->stats, STAT_TOKENS_CUT_OFF, 1);
    return is_cut_off;
}

/*
 * Forgets all tokens that were verified, because the keys may have changed. gate_token_retry calls
 * it without such a change: then the tokens are only verified again.
 */
static void
forget_verified(struct gate *gate)
{
    for (size_t i = 0; i < VERIFIED_TOKENS; i++)
        token_free(&gate->verified[i].token);
}

static void
wait_free(struct token_wait *wait)
{
    free(wait->text);
    free(wait);
}

/* Verifies the tokens that have waited for the keys of this issuer. */
static void
on_keys_changed(void *ctx, size_t issuer, bool is_fetched)
{
    struct gate *gate = ctx;
    struct token_wait *wait, *next, *ready = NULL;

    forget_verified(gate);
    DL_FOREACH_SAFE (gate->token_waits->first, wait, next) {
        if (wait->issuer != issuer)
            continue;
        DL_DELETE(gate->token_waits->first, wait);
        gate->token_waits->count--;
        DL_APPEND(ready, wait);
    }
    while ((wait = ready) != NULL) {
        char error[TOKEN_ERROR_MAX] = "";
        struct token token = {0};
        enum rc rc = RC_AGAIN;

        DL_DELETE(ready, wait);
        if (wait->redeem.owner != NULL) {
            rc = (wait->is_logout ? gate_logout_verify
                                  : gate_token_verify)(gate, wait->text, wait->len, &token, error);
            /* With the issuer's current keys, an unknown key is final. */
            if (rc == RC_AGAIN && is_fetched) {
                stats_add(gate->stats, STAT_TOKENS_SIGNATURE, 1);
                rc = RC_BAD;
            }
            wait->redeem.done(wait->redeem.owner, rc, &token, error);
            token_free(&token);
        }
        wait_free(wait);
    }
}

static struct gate_redeem *
wait_for_keys(struct gate *gate, bool is_logout, const char *text, size_t len, gate_redeemed *done,
              void *owner)
{
    struct token_error reason = {.issuer = 0};
    struct token token = {0};
    struct token_wait *wait;
    enum rc rc = (is_logout ? token_verify_logout : token_verify)(
        gate_keys_rules(gate->keys), text, len, clock_wall_us() / 1000000, &token, &reason);

    token_free(&token);
    if (rc == RC_OK && !is_logout && !gate_cutoffs_are_known(gate))
        reason.issuer = NO_ISSUER;
    else if (rc != RC_AGAIN || gate_keys_fetch(gate->keys, reason.issuer) != RC_OK)
        return NULL;
    if (gate->token_waits->count >= WAITING_MAX)
        return NULL;
    wait = memory_new(sizeof(*wait));
    *wait = (struct token_wait){.redeem = {done, owner},
                                .is_logout = is_logout,
                                .issuer = reason.issuer,
                                .text = memory_text(text, len),
                                .len = len};
    DL_APPEND(gate->token_waits->first, wait);
    gate->token_waits->count++;
    return &wait->redeem;
}

struct gate_redeem *
gate_token_wait(struct gate *gate, const char *text, size_t len, gate_redeemed *done, void *owner)
{
    return wait_for_keys(gate, false, text, len, done, owner);
}

struct gate_redeem *
gate_logout_wait(struct gate *gate, const char *text, size_t len, gate_redeemed *done, void *owner)
{
    return wait_for_keys(gate, true, text, len, done, owner);
}

void
gate_token_retry(struct gate *gate)
{
    on_keys_changed(gate, NO_ISSUER, false);
}

void
gate_token_open(struct gate *gate)
{
    gate->verified = memory_new(VERIFIED_TOKENS * sizeof(*gate->verified));
    gate->token_waits = memory_new(sizeof(*gate->token_waits));
    gate->keys =
        gate_keys_open(gate->loop, gate->config, gate->hub != NULL ? hub_store(gate->hub) : NULL,
                       on_keys_changed, gate);
}

void
gate_token_reload_keys(struct gate *gate)
{
    forget_verified(gate);
    gate_keys_reload(gate->keys);
}

/* The owners of waiting tokens have cancelled them. */
void
gate_token_close(struct gate *gate)
{
    struct token_wait *wait, *next;

    gate_keys_close(gate->keys);
    DL_FOREACH_SAFE (gate->token_waits->first, wait, next)
        wait_free(wait);
    free(gate->token_waits);
    forget_verified(gate);
    free(gate->verified);
}

/* The user lacks notifications of these groups. */
static void
report_missing_groups(struct gate *gate, const struct token *token)
{
    unsigned skipped = 0;

    stats_add(gate->stats, STAT_GROUPS_OVERAGE, 1);
    if (throttle_allows(&gate->groups_missing, clock_monotonic_us(), &skipped))
        log_warn("gate", "groups missing in a token: its provider left them out",
                 LOG_TEXT("user", token->user), LOG_UINT("suppressed", skipped),
                 LOG_TEXT("hint", "let the provider emit only the groups of this application, or "
                                  "roles"));
}

static enum rc
verify_claims(struct gate *gate, const char *text, size_t len, struct token *ret_token,
              char error[TOKEN_ERROR_MAX])
{
    static const enum metric metrics[] = {
        [TOKEN_FAULT_MALFORMED] = STAT_TOKENS_MALFORMED,
        [TOKEN_FAULT_ALGORITHM] = STAT_TOKENS_ALGORITHM,
        [TOKEN_FAULT_SIGNATURE] = STAT_TOKENS_SIGNATURE,
        [TOKEN_FAULT_CLAIMS] = STAT_TOKENS_CLAIMS,
        [TOKEN_FAULT_ISSUER] = STAT_TOKENS_ISSUER,
        [TOKEN_FAULT_AUDIENCE] = STAT_TOKENS_AUDIENCE,
        [TOKEN_FAULT_EARLY] = STAT_TOKENS_EARLY,
        [TOKEN_FAULT_EXPIRED] = STAT_TOKENS_EXPIRED,
    };
    const struct token_rules *rules = gate_keys_rules(gate->keys);
    const int64_t now_s = clock_wall_us() / 1000000;
    unsigned char digest[SHA256_DIGEST_LENGTH];
    struct verified_token *verified;
    struct token_error reason;
    enum rc rc;

    SHA256((const unsigned char *)text, len, digest);
    verified = &gate->verified[digest[0] % VERIFIED_TOKENS];
    if (verified->token.user != NULL && memcmp(verified->digest, digest, sizeof(digest)) == 0 &&
        now_s - rules->leeway_s < verified->token.expires_s) {
        *ret_token = token_copy(&verified->token);
        return RC_OK;
    }
    rc = token_verify(rules, text, len, now_s, ret_token, &reason);
    if (rc == RC_OK && ret_token->lacks_groups)
        report_missing_groups(gate, ret_token);
    if (rc == RC_OK) {
        token_free(&verified->token);
        verified->token = token_copy(ret_token);
        memcpy(verified->digest, digest, sizeof(digest));
        return RC_OK;
    }
    if (rc != RC_AGAIN)
        stats_add(gate->stats, metrics[reason.fault], 1);
    if (rc != RC_AGAIN && reason.fault == TOKEN_FAULT_SIGNATURE)
        stats_set(gate->stats, STAT_TOKENS_SIGNATURE_AT, (uint64_t)clock_wall_us());
    snprintf(error, TOKEN_ERROR_MAX, "%s", reason.text);
    return rc;
}

enum rc
gate_token_verify(struct gate *gate, const char *text, size_t len, struct token *ret_token,
                  char error[TOKEN_ERROR_MAX])
{
    enum rc rc = verify_claims(gate, text, len, ret_token, error);

    if (rc != RC_OK)
        return rc;
    if (!gate_cutoffs_are_known(gate))
        rc = RC_AGAIN;
    else if (gate_token_is_cut_off(gate, ret_token))
        rc = RC_LIMIT;
    else
        return RC_OK;
    token_free(ret_token);
    snprintf(error, TOKEN_ERROR_MAX, "%s",
             rc == RC_LIMIT ? GATE_CUT_OFF : "cut-offs are not known yet");
    return rc;
}

enum rc
gate_logout_verify(struct gate *gate, const char *text, size_t len, struct token *ret_token,
                   char error[TOKEN_ERROR_MAX])
{
    struct token_error reason;
    enum rc rc = token_verify_logout(gate_keys_rules(gate->keys), text, len,
                                     clock_wall_us() / 1000000, ret_token, &reason);

    if (rc != RC_OK)
        snprintf(error, TOKEN_ERROR_MAX, "%s", reason.text);
    return rc;
}

char *
gate_request_bearer(const struct http_head *head)
{
    static const char SCHEME[] = "Bearer ";
    char *header = NULL, *token = NULL;

    if (http_head_text(head, "authorization", AUTHORIZATION_MAX, &header) != RC_OK)
        return memory_text("", 0);
    if (header != NULL && strncasecmp(header, SCHEME, sizeof(SCHEME) - 1) == 0) {
        const char *text = header + sizeof(SCHEME) - 1;

        text += strspn(text, " ");
        token = memory_text(text, strcspn(text, " "));
    }
    free(header);
    return token;
}

char *
gate_request_ticket(const struct http_head *head)
{
    char *ticket = NULL;

    return http_head_argument(head, "ticket=", TICKET_ARGUMENT_MAX, &ticket) == RC_OK
               ? ticket
               : memory_text("", 0);
}

bool
gate_request_has_both(const struct http_head *head)
{
    char *bearer = gate_request_bearer(head);
    char *ticket = gate_request_ticket(head);
    bool has_both = bearer != NULL && ticket != NULL;

    free(bearer);
    free(ticket);
    return has_both;
}

/* ---- tickets, which replace a token in a URL: stored by POST /v1/ticket, redeemed by their use */

/* A ticket that is being stored. */
struct pending_ticket {
    struct store_request *store_request;
    char ticket[STORE_TICKET_TEXT + 1];
};

/* A ticket that is being redeemed. */
struct ticket_redeem {
    struct gate_redeem redeem;
    struct gate *gate;
};

static void
on_ticket_stored(void *ctx, enum rc rc)
{
    struct pending_ticket *pending = ctx;
    struct gate_request *request = store_request_reply(pending->store_request, rc);
    struct response response;

    if (request != NULL) {
        response_init(&response, 200, GATE_JSON);
        if (buffer_addf(&response.body, "{\"ticket\":\"%s\",\"exp\":%" PRId64 "}\n",
                        pending->ticket, clock_wall_us() / 1000000 + STORE_TICKET_SECONDS) != RC_OK)
            buffer_clear(&response.body);
        gate_request_respond(request, &response);
    }
    free(pending);
}

void
gate_api_ticket(struct gate_request *request)
{
    struct pending_ticket *pending = memory_new(sizeof(*pending));
    struct buffer claims;
    enum rc rc;

    pending->store_request = store_request_new(request);
    buffer_init(&claims, CLAIMS_MAX);
    random_hex(pending->ticket, STORE_TICKET_TEXT);
    rc = token_write(&request->token, &claims);
    if (rc == RC_OK)
        rc = store_ticket_save(hub_store(request->gate->hub), pending->ticket, claims.bytes,
                               on_ticket_stored, pending);
    buffer_free(&claims);
    if (rc != RC_OK)
        on_ticket_stored(pending, rc);
}

static bool
is_ticket(const char *text)
{
    return strlen(text) == STORE_TICKET_TEXT &&
           strspn(text, "0123456789abcdef") == STORE_TICKET_TEXT;
}

static void
on_claims_read(void *ctx, enum rc rc, struct bytes claims)
{
    struct ticket_redeem *redeem = ctx;
    struct token_error error = {.text = "store does not reply"};
    struct token token = {0};

    if (redeem->redeem.owner == NULL) {
        free(redeem);
        return;
    }
    if (rc == RC_OK && claims.at == NULL) {
        rc = RC_BAD;
        snprintf(error.text, sizeof(error.text), "ticket unknown, used or expired");
    } else if (rc == RC_OK) {
        rc = token_parse((const char *)claims.at, claims.len, clock_wall_us() / 1000000, &token,
                         &error);
        if (rc == RC_OK && gate_token_is_cut_off(redeem->gate, &token)) {
            rc = RC_LIMIT;
            snprintf(error.text, sizeof(error.text), GATE_CUT_OFF);
        }
    }
    redeem->redeem.done(redeem->redeem.owner, rc, &token, error.text);
    token_free(&token);
    free(redeem);
}

struct gate_redeem *
gate_ticket_redeem(struct gate *gate, const char *ticket, gate_redeemed *done, void *owner)
{
    struct ticket_redeem *redeem;

    if (!gate_cutoffs_are_known(gate))
        return NULL; /* the client may use the ticket again */
    redeem = memory_new(sizeof(*redeem));
    *redeem = (struct ticket_redeem){{done, owner}, gate};
    /*
     * A malformed ticket is looked up under a name that no ticket has, so that it is rejected like
     * an unknown ticket.
     */
    if (store_ticket_redeem(hub_store(gate->hub), is_ticket(ticket) ? ticket : "-", on_claims_read,
                            redeem) == RC_OK)
        return &redeem->redeem;
    free(redeem);
    return NULL;
}

/* ---- an accepted token, and a rejected one */

struct session_group *
gate_groups_of(const struct token *token)
{
    struct session_group *groups = memory_new((token->group_count + 1) * sizeof(*groups));

    for (size_t i = 0; i < token->group_count; i++)
        groups[i] = (struct session_group){.audience = token->groups[i].audience,
                                           .target = token->groups[i].target};
    return groups;
}

/* Returns a hint on the usual cause of an invalid signature. */
static const char *
signature_hint(const struct config *config)
{
    if (config->auth.public_key_file != NULL)
        return "sign tokens with the private key of auth.public_key_file";
    if (config->auth.key == NULL)
        return "the issuer must publish the key that signs its tokens in its JWK Set";
    if (config->auth.hs256_secret_file != NULL)
        return "the HS256 key is the content of auth.hs256_secret_file without its final newline, "
               "not decoded";
    return "the HS256 key is the value of auth.hs256_secret, not decoded";
}

/* After a change of keys, an invalid signature rejects all users: a warning. */
void
gate_log_rejected_token(struct gate *gate, const char *where, const char *error)
{
    const bool is_signature = strcmp(error, TOKEN_BAD_SIGNATURE) == 0;
    unsigned skipped = 0;

    if (throttle_allows(is_signature ? &gate->signature_rejected : &gate->token_rejected,
                        clock_monotonic_us(), &skipped))
        log_event(is_signature ? LOG_LEVEL_WARN : LOG_LEVEL_INFO, "gate", "token rejected",
                  LOG_TEXT("path", where), LOG_TEXT("error", error),
                  LOG_UINT("suppressed", skipped),
                  LOG_TEXT("hint", is_signature ? signature_hint(gate->config) : NULL));
}

void
gate_expiry_begin(struct gate_expiry *expiry, const struct config *config, int64_t expires_s)
{
    int64_t end_us = expires_s * 1000000;
    int64_t fifth_us = (end_us - clock_wall_us()) / 5;
    int64_t notice_us = fifth_us > EXPIRING_MIN_US ? fifth_us : EXPIRING_MIN_US;
    int64_t max_us = config->delivery.expiring_ms * 1000;

    *expiry = (struct gate_expiry){
        .expires_s = expires_s, .warn_at_us = end_us - (notice_us < max_us ? notice_us : max_us)};
}

int
gate_expiry_check(struct gate_expiry *expiry, const struct config *config, int64_t wall_us,
                  char ret_line[GATE_EXPIRING_MAX])
{
    int64_t left_us = expiry->expires_s * 1000000 - wall_us;

    if (left_us + config->auth.leeway_ms * 1000 <= 0)
        return -1;
    if (wall_us < expiry->warn_at_us)
        return 0;
    expiry->warn_at_us = INT64_MAX;
    return snprintf(ret_line, GATE_EXPIRING_MAX, "{\"t\":\"expiring\",\"in\":%lld}",
                    left_us > 0 ? (long long)(left_us / 1000000) : 0);
}
