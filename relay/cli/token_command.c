/* token_command.c: creates development tokens, signed with the HS256 secret in the settings. */
#include "cli/cli.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/config.h"
#include "wire/token.h"

#define TOKEN "token"
#define TOKEN_TEXT_MAX (1024 * 1024)
#define TOKEN_TTL_MAX_MS ((int64_t)3650 * 86400 * 1000)

struct token_request {
    const char *sub;
    const char *groups;
    const char *ttl;
    const char *path;
    bool publish;
    bool admin;
    bool help;
};

static const char token_usage[] =
    "Usage: clairon token --sub USER [options]\n"
    "Prints a development token signed with the relay's HS256 secret.\n"
    "\n"
    "  --sub USER         user id, the claim sub\n"
    "  --groups JSON      group memberships, such as '{\"ROLE\":[\"admin\"]}'\n"
    "  --ttl DURATION     lifetime (default: 1h)\n"
    "  --publish          allow POST /v1/notifications\n"
    "  --admin            allow the console and the requests of operators, such as POST "
    "/v1/realtime\n"
    "  -c FILE            configuration file of the relay\n"
    "  --section.key=V    one setting, such as --auth.hs256_secret_file=FILE\n";

/* Parses the groups, an object of arrays of strings. Returns NULL if they are invalid. */
static json_t *
groups_read(const char *text)
{
    json_t *groups = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    const char *audience;
    json_t *targets, *target;
    size_t i;
    bool good = json_is_object(groups);

    json_object_foreach(groups, audience, targets)
    {
        good = good && json_is_array(targets);
        json_array_foreach(targets, i, target) good = good && json_is_string(target);
    }
    if (good)
        return groups;
    json_decref(groups);
    return NULL;
}

/*
 * Sets the claim at the path of `len` bytes, names joined by dots (wire/token.h), unless it exists.
 * Returns 0, or -1 for a value that is not UTF-8.
 */
static int
claim_set(json_t *claims, const char *path, size_t len, const char *value, size_t value_len)
{
    char name[TOKEN_PATH_MAX + 1];
    size_t name_len = 0;

    for (size_t i = 0; i < len && name_len < TOKEN_PATH_MAX; i++) {
        if (path[i] == '.') {
            name[name_len] = '\0';
            if (json_object_get(claims, name) == NULL)
                (void)json_object_set_new(claims, name, json_object());
            claims = json_object_get(claims, name);
            name_len = 0;
        } else {
            i += path[i] == '\\' && i + 1 < len;
            name[name_len++] = path[i];
        }
    }
    name[name_len] = '\0';
    if (json_object_get(claims, name) != NULL)
        return 0;
    return json_object_set_new(claims, name, json_stringn(value, value_len));
}

/* Sets the claims that the relay requires; of a list, the first item. */
static int
required_set(json_t *claims, const struct config_claims *wanted, const char *sub)
{
    const char *user = wanted->user_claim != NULL ? wanted->user_claim : "sub";
    const char *audience = wanted->audience_claim != NULL ? wanted->audience_claim : "aud";
    const char *item = wanted->required != NULL ? wanted->required : "";
    int failed = claim_set(claims, user, strcspn(user, ", \t"), sub, strlen(sub));

    if (wanted->issuer != NULL)
        failed |= json_object_set_new(claims, "iss", json_string(wanted->issuer));
    if (wanted->audience != NULL)
        failed |= claim_set(claims, audience, strlen(audience), wanted->audience,
                            strcspn(wanted->audience, ", \t"));
    while (*item != '\0') {
        size_t len = strcspn(item, "="), value_len = strcspn(item + len, ",");

        failed |= claim_set(claims, item, len, item + len + 1, value_len - 1);
        item += len + value_len;
        item += strspn(item, ", \t");
    }
    return failed;
}

/* Returns the claims, or NULL after printing the error. */
static json_t *
claims_make(const struct token_request *request, const struct config *config, int64_t ttl_ms)
{
    int64_t now = clock_wall_us() / 1000000;
    json_t *claims = json_object(), *groups = NULL;
    int failed = json_object_set_new(claims, "sub", json_string(request->sub));

    if (failed != 0)
        (void)cli_usage_error(TOKEN, "--sub must be UTF-8", "");
    if (failed == 0 && request->groups != NULL) {
        groups = groups_read(request->groups);
        failed = groups == NULL || json_object_set_new(claims, "groups", groups) != 0;
        if (failed)
            (void)cli_usage_error(TOKEN,
                                  "--groups must be a JSON object of arrays of strings, such as ",
                                  "{\"ROLE\":[\"admin\"]}");
    }
    if (failed) {
        json_decref(claims);
        return NULL;
    }
    failed |= json_object_set_new(claims, "iat", json_integer(now));
    failed |= json_object_set_new(claims, "exp", json_integer(now + (ttl_ms + 999) / 1000));
    if (request->publish)
        failed |= json_object_set_new(claims, "publish", json_true());
    if (request->admin)
        failed |= json_object_set_new(claims, "admin", json_true());
    failed |= required_set(claims, &config->auth.claims, request->sub);
    if (!failed)
        return claims;
    (void)cli_usage_error(TOKEN, "[auth] issuer and audience must be UTF-8", "");
    json_decref(claims);
    return NULL;
}

static int
token_print(const json_t *claims, const struct config *config)
{
    char *text = json_dumps(claims, JSON_COMPACT);
    struct buffer token;
    bool done;

    buffer_init(&token, TOKEN_TEXT_MAX);
    done = text != NULL &&
           jws_sign_secret(config->auth.key, config->auth.key_len, text, &token) == RC_OK &&
           puts(token.bytes) >= 0 && fflush(stdout) == 0;
    free(text);
    buffer_free(&token);
    if (!done)
        fprintf(stderr, "clairon " TOKEN ": could not create or write the token\n");
    return done ? 0 : 1;
}

static int
token_make(const struct token_request *request, const struct config *config)
{
    int64_t ttl_ms = 3600 * 1000;

    if (config->auth.public_key_file != NULL)
        return cli_usage_error(TOKEN,
                               "cannot sign with a public key, [auth] public_key_file: sign ",
                               "RS256 and ES256 tokens with the private key");
    if (config->auth.key == NULL)
        return cli_usage_error(TOKEN, "cannot sign without an HS256 secret, such as ",
                               "[auth] hs256_secret_file");
    if (request->ttl != NULL && (config_value_duration(request->ttl, &ttl_ms) != RC_OK ||
                                 ttl_ms <= 0 || ttl_ms > TOKEN_TTL_MAX_MS))
        return cli_usage_error(TOKEN, "--ttl must be a duration from 1ms to 3650d, such as 1h", "");

    json_t *claims = claims_make(request, config, ttl_ms);

    if (claims == NULL)
        return CLI_USAGE_ERROR;

    int code = token_print(claims, config);

    json_decref(claims);
    return code;
}

int
cli_token(int argc, char **argv)
{
    /* Validates only the gate's settings, so that a token requires no database configuration. */
    static char only_gate[] = "--relay.roles=gate";
    static char *const forced[] = {only_gate, NULL};
    struct token_request request = {.sub = NULL};
    const struct cli_option options[] = {
        {"--sub", &request.sub, NULL},     {"--groups", &request.groups, NULL},
        {"--ttl", &request.ttl, NULL},     {"--publish", NULL, &request.publish},
        {"--admin", NULL, &request.admin}, {"--help", NULL, &request.help},
        {"-h", NULL, &request.help},       {"-c", &request.path, NULL},
        {"--config", &request.path, NULL},
    };
    struct config config = {0};
    char error[CONFIG_ERROR_MAX];
    int code = cli_options_parse(TOKEN, argc, argv, options, sizeof(options) / sizeof(options[0]),
                                 NULL, 0);

    if (code != 0)
        return code;
    if (request.help)
        return cli_print(token_usage);
    if (request.sub == NULL || *request.sub == '\0' || strlen(request.sub) > TOKEN_USER_MAX)
        return cli_usage_error(TOKEN, "--sub must be a user id of 1 to 255 bytes", "");
    if (token_has_controls(request.sub))
        return cli_usage_error(TOKEN, "--sub must not contain control characters", "");
    if (cli_settings_load(&config, request.path, argc, argv, forced, error) == RC_OK)
        code = token_make(&request, &config);
    else
        code = cli_settings_error(TOKEN, request.path, error);
    config_free(&config);
    return code;
}
