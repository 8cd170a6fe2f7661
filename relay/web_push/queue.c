/*
 * queue.c: the Web Pushes of notifications. A relay leases those that are due, and renews the lease
 * while it works. Those of a dead relay are due again when the lease ends, on any relay.
 *
 * A Web Push is dropped if the user has no subscription, or has had a session since
 * store_web_push.since_ms. The latter is asked before the first attempt, and not at an escalation.
 * It is repeated for the subscriptions whose push service failed, until its expiration.
 */
#include "web_push/web_push.h"

#include <ev.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/rates.h"
#include "base/stats.h"
#include "base/text.h"
#include "store/store.h"
#include "wire/push_message.h"
#include "wire/subscription.h"
#include "wire/push_encryption.h"

#define TICK_S 0.25
#define LEASE_MS 15000
#define RENEW_US INT64_C(5000000)
#define LEASE_MAX 128
#define JOBS_MAX (4 * WEB_PUSH_SERVICE_MAX) /* a service that hangs leaves jobs to the others */
#define DEFAULT_TTL_MS INT64_C(86400000)
#define STATE_MAX 8192

/* A Web Push that this relay has leased. */
struct job {
    struct job *prev, *next;      /* in queue->jobs */
    struct web_push_queue *queue; /* NULL: closed; freed by the reply that it waits for */
    struct store_web_push push;   /* its strings belong to the job */
    bool waits_for_store;
    bool has_failed;  /* a push service failed, or has too many requests: repeated */
    bool is_accepted; /* a push service has accepted it in this attempt */
    int64_t retry_ms; /* requested by a push service */
    int64_t renewed_us;
    unsigned attempts;                  /* earlier ones */
    char ticket[STORE_TICKET_TEXT + 1]; /* "": none */
    struct buffer sent; /* ids of subscriptions that need no further attempt, each after a space */
    struct target *targets;
    size_t target_count;
    size_t unfinished; /* targets */
};

/* One subscription of a job. */
struct target {
    struct job *job;
    struct web_push_request *request; /* NULL: finished */
    char id[SUBSCRIPTION_ID_TEXT + 1];
};

/* A request for due Web Pushes of a shard. */
struct lease {
    struct web_push_queue *queue; /* NULL: closed */
    unsigned shard;
    unsigned max;
};

/* What a shard last reported: its Web Pushes, of all relays. */
struct backlog {
    uint64_t count;
    int64_t oldest_ms; /* since the commit */
};

struct web_push_queue {
    struct ev_loop *loop;
    const struct config *config;
    struct store *store;
    struct web_push_sender *sender;
    struct stats *stats;
    bool is_stopped; /* leases nothing more */
    struct job *jobs;
    int job_count;
    struct lease *leases[STORE_SHARDS_MAX]; /* in flight */
    struct backlog backlogs[STORE_SHARDS_MAX];
    ev_timer tick;
};

/* ---- jobs */

static char *
copy(const char *text)
{
    return memory_text(text, strlen(text));
}

/* The state of earlier attempts: their number, and the ids in `sent`. */
static struct job *
job_new(struct web_push_queue *queue, const struct store_web_push *push)
{
    struct job *job = memory_new(sizeof(*job));
    const char *sent = strchr(push->state, ' ');

    job->queue = queue;
    job->push = *push;
    job->push.id = copy(push->id);
    job->push.user = copy(push->user);
    job->push.text = copy(push->text);
    job->push.urgency = copy(push->urgency);
    job->push.state = copy(push->state);
    job->attempts = (unsigned)strtoul(push->state, NULL, 10);
    job->renewed_us = clock_monotonic_us();
    buffer_init(&job->sent, STATE_MAX);
    if (sent != NULL && buffer_add(&job->sent, sent, strlen(sent)) != RC_OK)
        buffer_clear(&job->sent);
    DL_APPEND(queue->jobs, job);
    queue->job_count++;
    return job;
}

static void
job_free(struct job *job)
{
    for (size_t i = 0; i < job->target_count; i++)
        web_push_cancel(job->targets[i].request);
    free(job->targets);
    free((char *)job->push.id);
    free((char *)job->push.user);
    free((char *)job->push.text);
    free((char *)job->push.urgency);
    free((char *)job->push.state);
    buffer_free(&job->sent);
    free(job);
}

/* Forgets the job. What is not recorded in the store is due again after the lease. */
static void
job_drop(struct job *job)
{
    if (job->queue != NULL) {
        DL_DELETE(job->queue->jobs, job);
        job->queue->job_count--;
    }
    job_free(job);
}

/* A reply has arrived. False: the queue was closed meanwhile, and the job is freed. */
static bool
job_resume(struct job *job)
{
    job->waits_for_store = false;
    if (job->queue != NULL)
        return true;
    job_free(job);
    return false;
}

static void
on_recorded(void *ctx, enum rc rc)
{
    struct job *job = ctx;

    (void)rc; /* logged; after the lease it is repeated */
    if (job_resume(job))
        job_drop(job);
}

#define JOB_ENDS (-1)

static void
job_end(struct job *job, int64_t delay_ms)
{
    job->waits_for_store = true;
    if (store_end_web_push(job->queue->store, &job->push, delay_ms, job->is_accepted, on_recorded,
                           job) != RC_OK)
        on_recorded(job, RC_AGAIN);
}

/* Ends the job after an attempt, or stores when it is due again. */
static void
job_record(struct job *job, int64_t delay_ms)
{
    char *state = memory_new(STATE_MAX + 16);

    snprintf(state, STATE_MAX + 16, "%u%s", job->attempts + 1,
             job->sent.bytes != NULL ? job->sent.bytes : "");
    free((char *)job->push.state);
    job->push.state = state;
    job_end(job, delay_ms);
}

/* Exponential backoff, at least as long as a push service requested. */
static int64_t
retry_delay(const struct job *job)
{
    const struct config *config = job->queue->config;
    const int64_t delay = backoff_full_ms(&(struct backoff){
        config->delivery.backoff_base_ms, config->delivery.backoff_cap_ms, job->attempts});

    return delay > job->retry_ms ? delay : job->retry_ms;
}

static int64_t
expires_ms(const struct job *job)
{
    return job->push.expires_ms > 0 ? job->push.expires_ms : job->push.commit_ms + DEFAULT_TTL_MS;
}

static void
job_finish(struct job *job)
{
    int64_t delay = job->has_failed ? retry_delay(job) : JOB_ENDS;

    if (delay != JOB_ENDS && clock_wall_us() / 1000 + delay >= expires_ms(job)) {
        stats_add(job->queue->stats, STAT_SINK_WEBPUSH_DROPPED, 1);
        delay = JOB_ENDS;
    }
    job_record(job, delay);
}

/* ---- sending */

static void
on_sent(void *ctx, const struct web_push_result *result)
{
    struct target *target = ctx;
    struct job *job = target->job;

    target->request = NULL;
    if (result->outcome == WEB_PUSH_SENT) {
        job->is_accepted = true;
        stats_set(job->queue->stats, STAT_SINK_WEBPUSH_SUCCESS, (uint64_t)clock_wall_us());
    }
    if (result->outcome == WEB_PUSH_FAILED) {
        stats_add(job->queue->stats, STAT_SINK_WEBPUSH_FAILURES, 1);
        job->has_failed = true;
        if (result->retry_ms > job->retry_ms)
            job->retry_ms = result->retry_ms;
    } else if (buffer_addf(&job->sent, " %s", target->id) != RC_OK) {
        log_warn("webpush", "could not record a subscription, it may receive a Web Push twice");
    }
    if (--job->unfinished == 0)
        job_finish(job);
}

static bool
is_sent(const struct job *job, const char *id)
{
    return job->sent.bytes != NULL && strstr(job->sent.bytes, id) != NULL;
}

/* False: the job has one target less. */
static bool
send_target(struct job *job, struct target *target, const struct store_subscription *subscription,
            const struct web_push_content *content)
{
    enum rc rc;

    target->job = job;
    snprintf(target->id, sizeof(target->id), "%s", subscription->id);
    rc = web_push_send(job->queue->sender, job->push.user, subscription->text, content, on_sent,
                       target, &target->request);
    if (rc == RC_LIMIT) {
        job->has_failed = true;
    } else if (rc != RC_OK) {
        stats_add(job->queue->stats, STAT_PUSH_DENIED_SUBSCRIPTION, 1);
        log_warn("webpush", "could not encrypt for a subscription, it receives no Web Push",
                 LOG_TEXT("id", job->push.id));
    }
    return rc == RC_OK;
}

static void
send_to(struct job *job, const struct store_subscription *list, size_t count,
        const struct web_push_content *content)
{
    job->targets = memory_new((count + 1) * sizeof(*job->targets));
    for (size_t i = 0; i < count; i++) {
        struct target *target = &job->targets[job->target_count];

        if (is_sent(job, list[i].id) || !send_target(job, target, &list[i], content))
            continue;
        job->target_count++;
        job->unfinished++;
    }
    if (job->unfinished == 0)
        job_finish(job);
}

static bool
is_url_valid(const char *app_url, const char *url)
{
    struct buffer resolved;
    enum rc rc;

    buffer_init(&resolved, PUSH_URL_MAX);
    rc = push_url_resolve(app_url, url, &resolved);
    buffer_free(&resolved);
    return rc == RC_OK;
}

/* Writes the body for all subscriptions of the user. RC_BAD, RC_LIMIT: it cannot be sent. */
static enum rc
write_body(const struct job *job, struct buffer *body, char ret_topic[PUSH_TOPIC_TEXT + 1])
{
    char error[WIRE_ERROR_MAX];
    struct push_text text = {.title = NULL};
    enum rc rc = push_text_parse(job->push.text, strlen(job->push.text), &text, error);
    const struct push_message message = {.text = &text,
                                         .id = job->push.id,
                                         .user = job->push.user,
                                         .app_url = job->queue->config->webpush.app_url,
                                         .ticket = job->ticket[0] != '\0' ? job->ticket : NULL};

    if (rc == RC_OK)
        rc = push_message_write(&message, body, ret_topic);
    if (rc != RC_OK)
        stats_add(job->queue->stats,
                  text.title == NULL || is_url_valid(message.app_url, text.url)
                      ? STAT_PUSH_DENIED_TEXT
                      : STAT_PUSH_DENIED_URL,
                  1);
    push_text_free(&text);
    return rc;
}

static void
on_subscriptions(void *ctx, enum rc rc, const struct store_subscription *list, size_t count)
{
    struct job *job = ctx;
    char topic[PUSH_TOPIC_TEXT + 1];
    struct web_push_content content = {.topic = topic};
    struct buffer body;

    if (!job_resume(job))
        return;
    if (rc != RC_OK) {
        job_drop(job);
        return;
    }
    buffer_init(&body, WEB_PUSH_PLAIN_MAX);
    if (count == 0) {
        job_record(job, JOB_ENDS);
    } else if (write_body(job, &body, topic) != RC_OK) {
        job_record(job, JOB_ENDS);
    } else {
        content.body = body.bytes;
        content.len = body.len;
        content.urgency = job->push.urgency;
        content.ttl_s = (expires_ms(job) - clock_wall_us() / 1000) / 1000;
        if (content.ttl_s < 0)
            content.ttl_s = 0;
        send_to(job, list, count, &content);
    }
    buffer_free(&body);
}

static void
read_subscriptions(struct job *job)
{
    job->waits_for_store = true;
    if (store_subscriptions(job->queue->store, job->push.user, on_subscriptions, job) != RC_OK)
        on_subscriptions(job, RC_AGAIN, NULL, 0);
}

static void
on_ticket_saved(void *ctx, enum rc rc)
{
    struct job *job = ctx;

    if (!job_resume(job))
        return;
    if (rc != RC_OK)
        job_drop(job);
    else
        read_subscriptions(job);
}

/* A click on the notification acknowledges it. */
static void
save_ticket(struct job *job)
{
    int64_t lifetime = expires_ms(job) - clock_wall_us() / 1000;

    random_hex(job->ticket, STORE_TICKET_TEXT);
    job->waits_for_store = true;
    if (store_save_push_ticket(job->queue->store, job->ticket, job->push.id, job->push.user,
                               lifetime > 1 ? lifetime : 1, on_ticket_saved, job) != RC_OK)
        on_ticket_saved(job, RC_AGAIN);
}

static void
prepare(struct job *job)
{
    if (job->push.needs_ack)
        save_ticket(job);
    else
        read_subscriptions(job);
}

static void
on_presence(void *ctx, enum rc rc, bool was_present)
{
    struct job *job = ctx;

    if (!job_resume(job))
        return;
    if (rc != RC_OK)
        job_drop(job);
    else if (was_present)
        job_end(job, JOB_ENDS);
    else
        prepare(job);
}

static void
check_presence(struct job *job)
{
    job->waits_for_store = true;
    if (store_was_present(job->queue->store, job->push.user, job->push.since_ms, on_presence,
                          job) != RC_OK)
        on_presence(job, RC_AGAIN, false);
}

/* ---- leasing */

static void lease_due(struct web_push_queue *queue, unsigned shard);

static void
count_backlog(struct web_push_queue *queue, unsigned shard, const struct store_web_pushes *pushes)
{
    struct backlog sum = {.count = 0};

    stats_add(queue->stats, STAT_SINK_WEBPUSH_DROPPED, pushes->expired);
    queue->backlogs[shard] = (struct backlog){pushes->backlog, pushes->oldest_ms};
    for (unsigned i = 0; i < store_shards(queue->store); i++) {
        sum.count += queue->backlogs[i].count;
        if (queue->backlogs[i].oldest_ms > sum.oldest_ms)
            sum.oldest_ms = queue->backlogs[i].oldest_ms;
    }
    stats_set(queue->stats, STAT_SINK_WEBPUSH_BACKLOG, sum.count);
    stats_set(queue->stats, STAT_SINK_WEBPUSH_OLDEST, (uint64_t)sum.oldest_ms * 1000);
}

static void
on_leased(void *ctx, enum rc rc, const struct store_web_pushes *pushes)
{
    const struct lease lease = *(struct lease *)ctx;

    free(ctx);
    if (lease.queue == NULL)
        return;
    lease.queue->leases[lease.shard] = NULL;
    if (rc != RC_OK) /* logged */
        return;
    count_backlog(lease.queue, lease.shard, pushes);
    if (lease.queue->is_stopped)
        return; /* they are due again after the lease */
    for (size_t i = 0; i < pushes->count; i++) {
        struct job *job = job_new(lease.queue, &pushes->leased[i]);

        if (job->attempts > 0)
            prepare(job);
        else
            check_presence(job);
    }
    if (lease.max > 0 && pushes->count == lease.max)
        lease_due(lease.queue, lease.shard); /* more may be due */
}

/* Without room for further jobs, only counts the backlog. */
static void
lease_due(struct web_push_queue *queue, unsigned shard)
{
    struct lease *lease;

    if (queue->is_stopped || queue->leases[shard] != NULL)
        return;
    lease = memory_new(sizeof(*lease));
    *lease = (struct lease){queue, shard, queue->job_count + LEASE_MAX <= JOBS_MAX ? LEASE_MAX : 0};
    queue->leases[shard] = lease;
    if (store_lease_web_pushes(queue->store, shard, LEASE_MS, lease->max, on_leased, lease) !=
        RC_OK)
        on_leased(lease, RC_AGAIN, NULL);
}

static void
on_renewed(void *ctx, enum rc rc)
{
    (void)ctx;
    (void)rc; /* logged; without it the Web Push may be sent twice */
}

static void
renew(struct job *job, int64_t now_us)
{
    if (job->waits_for_store || now_us - job->renewed_us < RENEW_US)
        return;
    job->renewed_us = now_us;
    if (store_end_web_push(job->queue->store, &job->push, LEASE_MS, false, on_renewed, NULL) !=
        RC_OK)
        on_renewed(NULL, RC_AGAIN);
}

static void
on_tick(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct web_push_queue *queue = timer->data;
    int64_t now_us = clock_monotonic_us();
    struct job *job;

    (void)loop;
    (void)events;
    DL_FOREACH (queue->jobs, job) {
        renew(job, now_us);
    }
    for (unsigned shard = 0; shard < store_shards(queue->store); shard++)
        lease_due(queue, shard);
}

struct web_push_queue *
web_push_queue_open(struct ev_loop *loop, const struct config *config, struct store *store,
                    struct stats *stats, struct web_push_sender *sender)
{
    struct web_push_queue *queue = memory_new(sizeof(*queue));

    *queue = (struct web_push_queue){
        .loop = loop,
        .config = config,
        .store = store,
        .sender = sender,
        .stats = stats,
    };
    ev_timer_init(&queue->tick, on_tick, TICK_S, TICK_S);
    queue->tick.data = queue;
    ev_timer_start(loop, &queue->tick);
    return queue;
}

void
web_push_queue_stop(struct web_push_queue *queue)
{
    if (queue != NULL)
        queue->is_stopped = true;
}

void
web_push_queue_close(struct web_push_queue *queue)
{
    struct job *job, *next;

    if (queue == NULL)
        return;
    ev_timer_stop(queue->loop, &queue->tick);
    for (unsigned shard = 0; shard < STORE_SHARDS_MAX; shard++) {
        if (queue->leases[shard] != NULL)
            queue->leases[shard]->queue = NULL;
    }
    DL_FOREACH_SAFE (queue->jobs, job, next) {
        if (job->waits_for_store)
            job->queue = NULL;
        else
            job_free(job);
    }
    free(queue);
}
