/*
 * An echo server and its client, two processes that meet over shared memory:
 *
 *   cc -o echo echo.c $(pkg-config --cflags --libs gannet)
 *   ./echo                          both, by fork; exit status 0 when every byte came back
 *   ./echo server NETWORK           the server alone, until it is killed
 *   ./echo client NETWORK           the client alone
 *
 * The server never waits in a call but gannet_poller_wait, and sends back what it got without
 * copying it more than once: from the client's memory into a block that the client then reads. The
 * client opens its connection without waiting, writes into a block in place, and reads as read(2).
 */
#include <errno.h>
#include <gannet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SERVER "10.0.0.1:7"
#define BLOCKS 200
#define CLIENTS_MAX 16

/* What to do when a call fails: its three lines, and the end. */
static void fail(const char *call)
{
    fprintf(stderr, "%s (errno %d): %s\n", call, errno, gannet_last_error());
    exit(1);
}

static gannet_host *host_at(const char *network, const char *address)
{
    gannet_builder *builder = gannet_builder_new();
    if (builder == NULL || gannet_builder_channel(builder, network, address) != 0)
        fail("gannet_builder_channel");
    gannet_host *host = gannet_builder_build(builder);
    if (host == NULL)
        fail("gannet_builder_build");
    return host;
}

/* One connection of the server, and what is still to be sent back: a block at most. */
struct client {
    gannet_tcp *tcp;
    gannet_send_block *block;
    size_t length;
};

/* Copies the next received bytes into a block; 1 when there is one, 0 at the end, -1 for later. */
static int fill(struct client *client)
{
    gannet_recv_block *received;
    int got = gannet_tcp_recv_block(client->tcp, &received);
    if (got <= 0)
        return got;
    size_t size, room;
    const void *from = gannet_recv_block_data(received, &size);
    client->block = gannet_tcp_take_block(client->tcp);
    if (client->block == NULL)
        fail("gannet_tcp_take_block");
    void *to = gannet_send_block_data(client->block, &room);
    if (from == NULL || to == NULL || size > room)
        fail("gannet_send_block_data");
    memcpy(to, from, size);
    client->length = size;
    gannet_recv_block_close(received);
    return 1;
}

/* Echoes what there is; 0 when the connection is over. */
static int serve(gannet_poller *poller, struct client *client, uint64_t token)
{
    for (;;) {
        if (client->block == NULL) {
            int got = fill(client);
            if (got == 0)
                return 0;
            if (got < 0 && errno != EAGAIN)
                return 0;
            if (got < 0)
                return gannet_poller_modify(poller, client->tcp, token, GANNET_READABLE) == 0;
        }
        if (gannet_tcp_send_block(client->tcp, client->block, client->length) != 0) {
            if (errno != EAGAIN)
                return 0;
            /* The block is still ours: it leaves when there is room. */
            return gannet_poller_modify(poller, client->tcp, token, GANNET_WRITABLE) == 0;
        }
        client->block = NULL;
    }
}

static void drop(struct client *client)
{
    if (client->block != NULL)
        gannet_send_block_close(client->block);
    gannet_tcp_close(client->tcp);
    memset(client, 0, sizeof *client);
}

/* Takes in whoever connects; for how many clients the table has no room is not its business. */
static void welcome(gannet_poller *poller, gannet_listener *listener, struct client *clients)
{
    for (size_t i = 0; i < CLIENTS_MAX; i++) {
        if (clients[i].tcp != NULL)
            continue;
        gannet_tcp *tcp = gannet_accept(listener, NULL, NULL);
        if (tcp == NULL && errno == EAGAIN)
            return;
        if (tcp == NULL)
            fail("gannet_accept");
        gannet_set_option(tcp, GANNET_NONBLOCKING, 1);
        gannet_set_option(tcp, GANNET_NODELAY, 1);
        clients[i].tcp = tcp;
        if (gannet_poller_add(poller, tcp, i + 1, GANNET_READABLE) != 0)
            fail("gannet_poller_add");
    }
}

/* Serves until `connections` are over (0: for ever); `ready` is told when clients may come. */
static void server(const char *network, int connections, int ready)
{
    gannet_host *host = host_at(network, "10.0.0.1/24");
    struct sockaddr_storage address;
    socklen_t length;
    if (gannet_address(SERVER, &address, &length) != 0)
        fail("gannet_address");
    gannet_listener *listener =
        gannet_listen(host, (struct sockaddr *)&address, length, CLIENTS_MAX, 0);
    gannet_poller *poller = gannet_poller_new(host);
    if (listener == NULL || poller == NULL)
        fail("gannet_listen");
    gannet_set_option(listener, GANNET_NONBLOCKING, 1);
    if (gannet_poller_add(poller, listener, 0, GANNET_READABLE) != 0)
        fail("gannet_poller_add");
    if (ready >= 0 && write(ready, "r", 1) != 1)
        exit(1);

    struct client clients[CLIENTS_MAX] = {{0}};
    for (int over = 0; connections == 0 || over < connections;) {
        gannet_event events[8];
        int found = gannet_poller_wait(poller, events, 8, -1);
        if (found < 0)
            fail("gannet_poller_wait");
        for (int i = 0; i < found; i++) {
            uint64_t token = events[i].token;
            if (token == 0) {
                welcome(poller, listener, clients);
            } else if (!serve(poller, &clients[token - 1], token)) {
                drop(&clients[token - 1]);
                over++;
            }
        }
    }
    gannet_poller_close(poller);
    gannet_listener_close(listener);
    gannet_host_close(host);
}

/* Sends blocks of numbers and looks whether they come back. */
static void client(const char *network)
{
    gannet_host *host = host_at(network, "10.0.0.2/24");
    struct sockaddr_storage address;
    socklen_t length;
    if (gannet_address(SERVER, &address, &length) != 0)
        fail("gannet_address");
    gannet_tcp *tcp = gannet_tcp_connect_nonblocking(host, (struct sockaddr *)&address, length);
    if (tcp == NULL)
        fail("gannet_tcp_connect_nonblocking");
    gannet_poller *poller = gannet_poller_new(host);
    gannet_event event;
    if (gannet_poller_add(poller, tcp, 0, GANNET_WRITABLE) != 0 ||
        gannet_poller_wait(poller, &event, 1, 30000) != 1)
        fail("gannet_poller_wait");
    if (gannet_tcp_take_error(tcp) != 0)
        fail("gannet_tcp_connect_nonblocking");
    gannet_poller_close(poller);
    gannet_set_option(tcp, GANNET_NONBLOCKING, 0);

    size_t total = 0;
    for (int round = 0; round < BLOCKS; round++) {
        size_t size;
        gannet_send_block *block = gannet_tcp_take_block(tcp);
        unsigned char *data = block == NULL ? NULL : gannet_send_block_data(block, &size);
        if (data == NULL)
            fail("gannet_tcp_take_block");
        for (size_t i = 0; i < size; i++)
            data[i] = (unsigned char)(round * 31 + i);
        if (gannet_tcp_send_block(tcp, block, size) != 0)
            fail("gannet_tcp_send_block");
        for (size_t done = 0; done < size;) {
            unsigned char back[4096];
            ssize_t got = gannet_tcp_read(tcp, back, sizeof back);
            if (got <= 0)
                fail("gannet_tcp_read");
            for (ssize_t i = 0; i < got; i++, done++)
                if (back[i] != (unsigned char)(round * 31 + done)) {
                    fprintf(stderr, "round %d: byte %zu is wrong\n", round, done);
                    exit(1);
                }
        }
        total += size;
    }
    gannet_tcp_info info;
    if (gannet_tcp_describe(tcp, &info, sizeof info) != 0)
        fail("gannet_tcp_describe");
    printf("%zu bytes there and back, %s, round trip %.1f us\n", total,
           gannet_tcp_state_name(info.state), (double)info.rtt_ns / 1000);
    gannet_tcp_shutdown(tcp, SHUT_WR);
    gannet_tcp_close(tcp);
    gannet_host_close(host);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "server") == 0) {
        server(argv[2], 0, -1);
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "client") == 0) {
        client(argv[2]);
        return 0;
    }
    char network[32];
    int ready[2], status;
    char byte;
    snprintf(network, sizeof network, "echo-%ld", (long)getpid());
    if (pipe(ready) != 0)
        return 1;
    /* Before there is a host: handles do not survive a fork. */
    pid_t child = fork();
    if (child == 0) {
        server(network, 1, ready[1]);
        exit(0);
    }
    close(ready[1]);
    if (child < 0 || read(ready[0], &byte, 1) != 1)
        return 1;
    client(network);
    return waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
}
