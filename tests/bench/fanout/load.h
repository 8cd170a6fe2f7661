/* load.h: declarations shared by the load client. */
#ifndef BENCH_LOAD_H
#define BENCH_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define USER_TEXT_MAX 16

struct options {
    const char *kind; /* type of server: clairon, floor, stored, nchan, ws, socketio */
    int port;
    int control_port;  /* floor, ws, socketio: the port to publish on */
    const char *store; /* clairon, stored: the store's unix socket */
    const char *secret;
    int clients;
    size_t bytes;      /* size of one message in bytes */
    int burst;         /* messages published together */
    int window;        /* bursts in flight */
    bool each;         /* one message for each client instead of one for all */
    bool listen;       /* only count messages, do not publish */
    bool latency;      /* measure the age of messages too */
    bool idle;         /* only connect, and stay connected for `seconds` */
    bool simultaneous; /* connect simultaneously; clairon only */
    bool patient;      /* nchan: wait for each reply before the next post */
    double seconds;
    int pids[4]; /* processes with measured CPU time, the server first */
    int pid_count;
};

/* One client. The client counts messages by their WebSocket frame headers. */
struct client {
    int fd;
    bool sent_connect; /* used only by clients that connect simultaneously */
    uint64_t skip;     /* payload bytes not yet received */
    bool skip_counts;
    unsigned char header[10];
    unsigned header_len;
};

/* ws.c */
void client_open(struct client *client, const struct options *options, int number);
/* clairon only: all clients connect before the first client authenticates. */
void clients_open_at_once(struct client *clients, const struct options *options);
/* Reads available bytes. Returns 0, or -1 when the server closed the connection. */
int client_read(struct client *client);
extern uint64_t messages_seen;
extern uint64_t bytes_seen;
extern size_t message_min; /* shorter WebSocket frames are not messages */
/* Ages of messages in us when sampling, otherwise NULL. */
extern uint32_t *ages;
extern size_t age_count;
#define AGES_MAX 4000000

/* publish.c */
void publish_open(const struct options *options);
/* Publishes bursts of messages to all clients, or one message to each. */
void publish(const struct options *options, int bursts);

int tcp_connect(int port);
void write_all(int fd, const void *bytes, size_t len);
void fail(const char *what) __attribute__((noreturn));
double now_s(void);
int64_t wall_us(void);

#endif
