/*
 * cutoff_routes.c: what cuts tokens off: POST /v1/users/ID/disconnect by an administrator, and
 * POST /v1/backchannel-logout by an identity provider.
 */
#include "gate/routes.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "gate/http/auth.h"
#include "gate/http/request.h"
#include "gate/net/gate_shared.h"
#include "hub/hub.h"
#include "store/store.h"
#include "store/timeouts.h"
#include "wire/client_message.h"
#include "wire/cutoff.h"
#include "wire/http_head.h"

/* A cut-off that is being stored. */
struct pending_cutoff {
    struct store_request *store_request;
    struct cutoff cutoff;
    void (*respond)(struct gate_request *request);
};

/* ---- the store */

static void
on_replicated(void *ctx, enum rc rc)
{
    struct pending_cutoff *pending = ctx;
    struct gate_request *request = store_request_done(pending->store_request);

    if (request != NULL && rc == RC_OK)
        pending->respond(request);
    else if (request != NULL)
        gate_request_problem(request, 503, 0, "cut-off stored, but on too few replicas: repeat it");
    free(pending);
}

/* It counts in this process immediately, and in others when they read the control stream. */
static void
on_stored(void *ctx, enum rc rc, const struct cutoff *cutoff)
{
    struct pending_cutoff *pending = ctx;
    struct gate_request *request = store_request_reply(pending->store_request, rc);
    struct store *store;

    if (request == NULL) {
        free(pending);
        return;
    }
    gate_cutoffs_add(request->gate, cutoff);
    store = hub_store(request->gate->hub);
    pending->store_request = store_request_new(request);
    store_await_replicas(store, 0, REPLICAS_CUTOFF_US, on_replicated, pending);
}

/* `user`: see store_cut_off */
static void
cut_off(struct gate_request *request, const struct cutoff *cutoff, const char *user,
        void (*respond)(struct gate_request *request))
{
    struct pending_cutoff *pending = memory_new(sizeof(*pending));
    enum rc rc;

    *pending = (struct pending_cutoff){
        .store_request = store_request_new(request), .cutoff = *cutoff, .respond = respond};
    rc = store_cut_off(hub_store(request->gate->hub), &pending->cutoff, user, on_stored, pending);
    if (rc != RC_OK)
        on_stored(pending, rc, &pending->cutoff);
}

/* ---- by an administrator */

static struct gate_user *
user_of(struct gate_request *request)
{
    return (struct gate_user *)request->route_state;
}

void
gate_user_headers(struct gate_request *request)
{
    const struct gate_route *route = request->route;
    size_t valid_len = 0;
    char *name = NULL;

    if (http_head_segment(request->conn->head, route->path, route->user_suffix, TOKEN_USER_MAX,
                          &name) == RC_OK &&
        name != NULL && utf8_is_prefix(name, strlen(name), &valid_len) && name[valid_len] == '\0')
        user_of(request)->name = name;
    else
        free(name);
}

void
gate_user_free(struct gate_request *request)
{
    free(user_of(request)->name);
}

void
gate_api_cutoff(struct gate_request *request)
{
    const int64_t now_s = clock_wall_us() / 1000000;
    const char *user = user_of(request)->name;
    char error[CLIENT_MESSAGE_ERROR_MAX];
    int64_t until_s = 0;
    struct cutoff cutoff;
    char *jti = NULL;

    if (user == NULL) {
        gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST, GATE_BAD_USER);
    } else if (client_message_parse_cutoff(request->body.bytes, request->body.len, &until_s, &jti,
                                           error) != RC_OK) {
        gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST, error);
    } else if (until_s != 0 && until_s <= now_s) {
        gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST, "\"until\" is in the past");
    } else {
        cutoff = cutoff_for(user, jti, until_s, now_s);
        log_audit_act(&(struct log_act){request->token.user, "kick", "", user, ""});
        cut_off(request, &cutoff, jti == NULL ? user : NULL, gate_request_respond_empty);
    }
    free(jti);
}

/* ---- by an identity provider: OpenID Connect Back-Channel Logout 1.0 */

static void
respond_logged_out(struct gate_request *request)
{
    struct response response;

    response_init(&response, 200, GATE_JSON);
    gate_request_respond(request, &response);
}

/* Section 2.8 */
static void
reject_logout(struct gate_request *request, const char *error)
{
    struct response response;
    enum rc rc;

    gate_log_rejected_token(request->gate, request->route->path, error);
    response_init(&response, 400, GATE_JSON);
    rc = buffer_addf(&response.body, "{\"error\":\"invalid_request\",\"error_description\":");
    if (rc == RC_OK)
        rc = buffer_add_json(&response.body, error, strlen(error));
    if (rc == RC_OK)
        rc = buffer_addf(&response.body, "}\n");
    gate_request_respond_whole(request, &response, rc);
}

/*
 * By sid the session, otherwise all sessions of the user that began before the logout token was
 * issued: a repeated request does not end later ones.
 */
static void
log_out(struct gate_request *request, enum rc rc, const struct token *token, const char *error)
{
    const int64_t now_s = clock_wall_us() / 1000000;
    struct cutoff cutoff = {.ends_s = now_s + CUTOFF_LOGOUT_S};

    if (rc == RC_AGAIN) {
        gate_request_problem(request, 503, 0, error);
    } else if (rc != RC_OK) {
        reject_logout(request, error);
    } else {
        cutoff.digest = token->marks.user;
        cutoff.issued_s = token->marks.issued_s;
        if (token->user == NULL) {
            cutoff.digest = token->marks.session;
            cutoff.issued_s = CUTOFF_ALL_S;
        }
        log_info("gate", "logout by an identity provider",
                 LOG_TEXT("by", token->user != NULL ? "sub" : "sid"),
                 LOG_TEXT("user", token->user));
        cut_off(request, &cutoff, token->user, respond_logged_out);
    }
}

/* The keys of the issuer were fetched, or could not be. */
static void
on_logout_verified(void *owner, enum rc rc, struct token *token, const char *error)
{
    struct gate_request *request = owner;

    request->redeem = NULL;
    if (request->state == GATE_REQUEST_WAITING)
        log_out(request, rc, token, error);
}

void
gate_api_logout(struct gate_request *request)
{
    char error[TOKEN_ERROR_MAX];
    struct token token = {0};
    char *text = NULL;
    enum rc rc = http_form_argument(request->body.bytes, request->body.len,
                                    "logout_token=", TOKEN_BYTES_MAX, &text);

    if (rc != RC_OK || text == NULL) {
        reject_logout(request, rc != RC_OK ? "the logout_token is too long"
                                           : "the form has no logout_token");
        return;
    }
    rc = gate_logout_verify(request->gate, text, strlen(text), &token, error);
    if (rc == RC_AGAIN)
        request->redeem =
            gate_logout_wait(request->gate, text, strlen(text), on_logout_verified, request);
    if (request->redeem == NULL)
        log_out(request, rc, &token, error);
    token_free(&token);
    free(text);
}
