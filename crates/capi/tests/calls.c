/* What C programs see of every kind of call; built and run by c_programs.rs. */
#include <arpa/inet.h>
#include <errno.h>
#include <gannet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int checks;

#define CHECK(what)                                                                   \
    do {                                                                              \
        checks++;                                                                     \
        if (!(what)) {                                                                \
            fprintf(stderr, "%s:%d: %s\nerrno %d: %s\n", __FILE__, __LINE__, #what,   \
                    errno, gannet_last_error());                                      \
            exit(1);                                                                  \
        }                                                                             \
    } while (0)

/* A call that fails so, and says why in three lines. */
#define FAILS(number, call)                                                           \
    do {                                                                              \
        errno = 0;                                                                    \
        CHECK((call) && errno == (number));                                           \
        CHECK(lines_of(gannet_last_error()) == 3);                                    \
    } while (0)

static int lines_of(const char *text)
{
    int lines = *text != '\0';
    for (; *text != '\0'; text++)
        lines += *text == '\n';
    return lines;
}

struct place {
    struct sockaddr_storage at;
    socklen_t length;
};

static struct place place(const char *text)
{
    struct place p;
    CHECK(gannet_address(text, &p.at, &p.length) == 0);
    return p;
}

#define AT(p) (struct sockaddr *)&(p).at, (p).length

static gannet_host *host_at(const char *network, const char *address)
{
    gannet_builder *builder = gannet_builder_new();
    CHECK(builder != NULL && gannet_builder_channel(builder, network, address) == 0);
    CHECK(gannet_builder_setting(builder, "profile=latency") == 0);
    CHECK(gannet_builder_setting(builder, "tcp.receive_buffer=48K") == 0);
    CHECK(gannet_builder_setting(builder, "tcp.congestion = reno") == 0);
    FAILS(EINVAL, gannet_builder_setting(builder, "tcp.congestian=reno") == -1);
    CHECK(strstr(gannet_last_error(), "tcp.congestion") != NULL);
    FAILS(EINVAL, gannet_builder_setting(builder, "tcp.congestion=fast") == -1);
    FAILS(EINVAL, gannet_builder_setting(builder, "tcp.congestion") == -1);
    CHECK(gannet_builder_spin(builder, 20) == 0 && gannet_builder_linger(builder, 1000) == 0);
    gannet_host *host = gannet_builder_build(builder);
    CHECK(host != NULL);
    FAILS(EBADF, gannet_builder_close(builder) == -1);
    return host;
}

static void handles(void)
{
    gannet_tcp *none = NULL;
    char byte;
    int number = 5;
    FAILS(EINVAL, gannet_tcp_read(none, &byte, 1) == -1);
    FAILS(EBADF, gannet_tcp_read((gannet_tcp *)&number, &byte, 1) == -1);
    FAILS(EBADF, gannet_tcp_close((gannet_tcp *)(uintptr_t)0xdeadbeefdeadbeef) == -1);
    FAILS(EINVAL, gannet_host_close(NULL) == -1);
    FAILS(EINVAL, gannet_builder_build(NULL) == NULL);
    FAILS(EINVAL, gannet_set_option(NULL, GANNET_TTL, 1) == -1);
    FAILS(EBADF, gannet_set_option(&number, GANNET_TTL, 1) == -1);
    FAILS(EINVAL, gannet_send_block_data(NULL, NULL) == NULL);

    gannet_builder *builder = gannet_builder_new();
    FAILS(EINVAL, gannet_builder_channel(builder, NULL, "10.0.0.1/24") == -1);
    FAILS(EINVAL, gannet_builder_channel(builder, "\xff\xfe", "10.0.0.1/24") == -1);
    FAILS(EBADF, gannet_builder_tap_fd(builder, -1, 1500, NULL, "10.0.0.1/24") == -1);
    FAILS(EINVAL, gannet_builder_build(builder) == NULL);
    FAILS(EBADF, gannet_builder_channel(builder, "x", "10.0.0.1/24") == -1);

    builder = gannet_builder_new();
    CHECK(gannet_builder_channel(builder, "no/such/name", "10.0.0.1/24") == 0);
    FAILS(EINVAL, gannet_builder_build(builder) == NULL);
    builder = gannet_builder_new();
    CHECK(gannet_builder_tap_fd(builder, 0, 1500, NULL, "10.0.0.300/24") == 0);
    FAILS(EINVAL, gannet_builder_build(builder) == NULL);

    struct place p;
    FAILS(EINVAL, gannet_address("10.0.0.1", &p.at, &p.length) == -1);
    CHECK(strcmp(gannet_version(), "?") != 0);
}

/* A thread that waits in a call until another shuts the connection down. */
static void *read_to_the_end(void *tcp)
{
    char byte;
    CHECK(gannet_set_option(tcp, GANNET_READ_TIMEOUT, 30000) == 0);
    CHECK(gannet_tcp_read(tcp, &byte, 1) == 0);
    return NULL;
}

/* Both ends of one connection. */
static void stream(gannet_host *here, gannet_host *there)
{
    struct place any = place("10.0.0.1:0"), from, seen;
    gannet_listener *listener = gannet_listen(here, AT(any), 5, 0);
    CHECK(listener != NULL);
    FAILS(EADDRNOTAVAIL, gannet_listen(there, AT(any), 0, 0) == NULL);
    FAILS(EOPNOTSUPP, gannet_listen(here, AT(any), 0, 8) == NULL);
    any.length = sizeof any.at;
    CHECK(gannet_listener_address(listener, (struct sockaddr *)&any.at, &any.length) == 0);
    CHECK(any.length == sizeof(struct sockaddr_in));
    FAILS(EADDRINUSE, gannet_listen(here, AT(any), 0, 0) == NULL);
    FAILS(EINVAL, gannet_tcp_connect(there, (struct sockaddr *)&any.at, 4) == NULL);
    FAILS(EAFNOSUPPORT, gannet_tcp_connect(there, &(struct sockaddr){.sa_family = AF_UNIX},
                                           sizeof(struct sockaddr)) == NULL);
    CHECK(gannet_set_option(listener, GANNET_NONBLOCKING, 1) == 0);
    FAILS(EAGAIN, gannet_accept(listener, NULL, NULL) == NULL);
    CHECK(gannet_set_option(listener, GANNET_NONBLOCKING, 0) == 0);
    FAILS(ENOPROTOOPT, gannet_set_option(listener, GANNET_BROADCAST, 1) == -1);

    from = place("0.0.0.0:4321");
    gannet_connect_options options = {.timeout_ms = 20000};
    options.from = (struct sockaddr *)&from.at;
    options.from_length = from.length;
    gannet_tcp *near = gannet_tcp_connect_with(there, AT(any), &options);
    CHECK(near != NULL && gannet_tcp_is_connecting(near) == 0);
    seen.length = sizeof seen.at;
    FAILS(EINVAL, gannet_accept(listener, (struct sockaddr *)&seen.at, NULL) == NULL);
    gannet_tcp *far = gannet_accept(listener, (struct sockaddr *)&seen.at, &seen.length);
    CHECK(far != NULL && ((struct sockaddr_in *)&seen.at)->sin_port == htons(4321));
    FAILS(EADDRNOTAVAIL, gannet_tcp_connect_with(there, AT(any), &options) == NULL);

    struct iovec parts[2] = {{"gather", 6}, {"ed", 2}};
    char text[16] = {0};
    CHECK(gannet_tcp_writev(near, parts, 2) == 8);
    CHECK(gannet_tcp_recv(far, text, sizeof text, MSG_PEEK) == 8);
    CHECK(memcmp(text, "gathered", 8) == 0);
    FAILS(EOPNOTSUPP, gannet_tcp_recv(far, text, sizeof text, MSG_OOB) == -1);
    char one[3], two[9] = {0};
    struct iovec into[2] = {{one, 3}, {two, 8}};
    CHECK(gannet_tcp_readv(far, into, 2) == 8 && strcmp(two, "hered") == 0);
    FAILS(EINVAL, gannet_tcp_writev(near, parts, -1) == -1);
    FAILS(EINVAL, gannet_tcp_write(near, NULL, 5) == -1);
    CHECK(gannet_tcp_write(near, NULL, 0) == 0);

    int64_t value;
    CHECK(gannet_get_option(near, GANNET_RECEIVE_BUFFER, &value) == 0 && value == 48 << 10);
    CHECK(gannet_set_option(near, GANNET_LINGER, 0) == 0);
    CHECK(gannet_get_option(near, GANNET_LINGER, &value) == 0 && value == 0);
    CHECK(gannet_set_option(near, GANNET_LINGER, -1) == 0);
    CHECK(gannet_set_option(near, GANNET_READ_TIMEOUT, 20) == 0);
    CHECK(gannet_get_option(near, GANNET_READ_TIMEOUT, &value) == 0 && value == 20);
    FAILS(EAGAIN, gannet_tcp_read(near, text, 1) == -1);
    FAILS(EINVAL, gannet_set_option(near, GANNET_TTL, 0) == -1);
    FAILS(EINVAL, gannet_set_option(near, GANNET_TTL, 1LL << 40) == -1);
    FAILS(ENOPROTOOPT, gannet_set_option(near, 999, 0) == -1);
    CHECK(gannet_tcp_set_congestion_control(near, "cubic") == 0);
    FAILS(ENOENT, gannet_tcp_set_congestion_control(near, "none") == -1);

    gannet_tcp_info info;
    memset(&info, 0xee, sizeof info);
    CHECK(gannet_tcp_describe(far, &info, sizeof info) == 0 && info.bytes_received == 8);
    CHECK(strcmp(gannet_tcp_state_name(info.state), "ESTABLISHED") == 0);
    /* A program built with another version knows less, or more. */
    struct { gannet_tcp_info known; uint64_t unknown; } larger = {.unknown = 7};
    CHECK(gannet_tcp_describe(far, &larger.known, sizeof larger) == 0 && larger.unknown == 0);
    CHECK(gannet_tcp_describe(far, &info, 4) == 0);

    gannet_send_block *block = gannet_tcp_take_block(near);
    size_t size;
    memcpy(gannet_send_block_data(block, &size), "in place", 8);
    FAILS(EINVAL, gannet_tcp_send_block(near, gannet_tcp_take_block(near), size + 1) == -1);
    CHECK(size > 8 && gannet_tcp_send_block(near, block, 8) == 0);
    FAILS(EBADF, gannet_send_block_close(block) == -1);
    gannet_recv_block *received;
    CHECK(gannet_tcp_recv_block(far, &received) == 1);
    const void *lies = gannet_recv_block_data(received, &size);
    CHECK(size == 8 && memcmp(lies, "in place", 8) == 0);
    CHECK(gannet_recv_block_close(received) == 0);
    FAILS(EBADF, gannet_recv_block_data(received, NULL) == NULL);

    pthread_t reader;
    CHECK(pthread_create(&reader, NULL, read_to_the_end, near) == 0);
    usleep(20000);
    CHECK(gannet_tcp_shutdown(near, SHUT_RD) == 0 && pthread_join(reader, NULL) == 0);
    FAILS(EINVAL, gannet_tcp_shutdown(near, 77) == -1);
    CHECK(gannet_tcp_shutdown(near, SHUT_WR) == 0);
    FAILS(EPIPE, gannet_tcp_write(near, "x", 1) == -1);
    CHECK(gannet_tcp_read(far, text, sizeof text) == 0);
    CHECK(gannet_tcp_recv_block(far, &received) == 0 && received == NULL);
    CHECK(gannet_tcp_take_error(far) == 0);
    CHECK(gannet_tcp_close(near) == 0 && gannet_tcp_close(far) == 0);
    FAILS(EBADF, gannet_tcp_close(near) == -1);
    CHECK(gannet_listener_close(listener) == 0);

    gannet_tcp *refused = gannet_tcp_connect_nonblocking(there, AT(any));
    gannet_poller *poller = gannet_poller_new(there);
    gannet_event event;
    CHECK(refused != NULL && gannet_poller_add(poller, refused, 9, GANNET_WRITABLE) == 0);
    CHECK(gannet_poller_wait(poller, &event, 1, 30000) == 1 && event.token == 9);
    CHECK((event.ready & GANNET_FAILED) != 0);
    CHECK(gannet_tcp_take_error(refused) == ECONNREFUSED && errno == ECONNREFUSED);
    CHECK(gannet_tcp_take_error(refused) == 0);
    FAILS(EEXIST, gannet_poller_add(poller, refused, 9, 0) == -1);
    CHECK(gannet_poller_remove(poller, refused) == 0);
    FAILS(ENOENT, gannet_poller_modify(poller, refused, 9, 0) == -1);
    FAILS(EINVAL, gannet_poller_wait(poller, &event, 0, 0) == -1);
    CHECK(gannet_poller_wait(poller, &event, 1, 0) == 0);
    CHECK(gannet_tcp_close(refused) == 0 && gannet_poller_close(poller) == 0);
    FAILS(ECONNREFUSED, gannet_tcp_connect(there, AT(any)) == NULL);
    any = place("10.0.0.77:1");
    FAILS(EHOSTUNREACH, gannet_tcp_connect(there, AT(any)) == NULL);
}

static void *wake(void *poller)
{
    gannet_poller_wake(poller);
    return NULL;
}

static void datagrams(gannet_host *here, gannet_host *there)
{
    struct place at = place("10.0.0.1:53"), any = place("0.0.0.0:0"), seen;
    gannet_udp *one = gannet_udp_bind(here, AT(at), 0), *two = gannet_udp_bind(there, AT(any), 0);
    CHECK(one != NULL && two != NULL);
    FAILS(EADDRINUSE, gannet_udp_bind(here, AT(at), 0) == NULL);
    FAILS(EDESTADDRREQ, gannet_udp_send(two, "x", 1) == -1);
    CHECK(gannet_udp_sendto(two, "question", 8, AT(at)) == 8);
    char text[16];
    seen.length = sizeof seen.at;
    CHECK(gannet_udp_recvfrom(one, text, 4, MSG_PEEK, NULL, NULL) == 4);
    FAILS(EINVAL, gannet_udp_recvfrom(one, text, 4, 0, (struct sockaddr *)&seen.at, NULL) == -1);
    CHECK(gannet_udp_recvfrom(one, text, sizeof text, 0, (struct sockaddr *)&seen.at,
                              &seen.length) == 8);
    CHECK(gannet_udp_connect(two, AT(at)) == 0);
    CHECK(gannet_udp_sendto(one, "answer", 6, AT(seen)) == 6);
    CHECK(gannet_udp_recv(two, text, sizeof text, 0) == 6);
    CHECK(gannet_set_option(two, GANNET_NONBLOCKING, 1) == 0);
    FAILS(EAGAIN, gannet_udp_recv(two, text, sizeof text, 0) == -1);
    CHECK(gannet_udp_join(one, "239.1.2.3", "10.0.0.1") == 0);
    CHECK(gannet_udp_leave(one, "239.1.2.3", "10.0.0.1") == 0);
    FAILS(EADDRNOTAVAIL, gannet_udp_leave(one, "239.1.2.3", NULL) == -1);
    FAILS(EINVAL, gannet_udp_join(one, "no group", NULL) == -1);
    gannet_datagram places[4];
    char many[32];
    CHECK(gannet_udp_send_batch(one, "aabbc", 5, 2, AT(seen)) == 3);
    for (int got = 0, n; got < 3; got += n) {
        n = gannet_udp_recv_batch(two, many, sizeof many, places, 4);
        if (n < 0 && errno == EAGAIN)
            n = 0;
        for (int i = 0; i < n; i++)
            CHECK(memcmp(many + places[i].offset, "aabbc" + 2 * (got + i), places[i].length) == 0);
        CHECK(n >= 0 && (n == 0 || places[0].from_length == at.length));
    }
    FAILS(EINVAL, gannet_udp_recv_batch(two, many, sizeof many, places, 0) == -1);
    FAILS(EINVAL, gannet_udp_send_batch(one, "aa", 2, 0, AT(seen)) == -1);
    CHECK(gannet_udp_dropped(one) == 0 && gannet_udp_take_error(one) == 0);

    gannet_poller *poller = gannet_poller_new(here);
    gannet_event events[4];
    FAILS(EINVAL, gannet_poller_add(poller, two, 0, GANNET_READABLE) == -1);
    CHECK(gannet_poller_add(poller, one, 1, GANNET_READABLE) == 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, wake, poller) == 0);
    CHECK(gannet_poller_wait(poller, events, 4, -1) == 0);
    pthread_join(thread, NULL);
    CHECK(gannet_udp_send(two, "again", 5) == 5);
    CHECK(gannet_poller_wait(poller, events, 4, 30000) == 1 && events[0].token == 1);
    CHECK(events[0].ready == GANNET_READABLE);
    CHECK(gannet_udp_recv(one, text, sizeof text, 0) == 5);
    int pipes[2];
    CHECK(pipe(pipes) == 0 && gannet_poller_add_descriptor(poller, pipes[0]) == 0);
    CHECK(write(pipes[1], "x", 1) == 1 && gannet_poller_wait(poller, events, 4, -1) == 0);
    FAILS(EBADF, gannet_poller_add_descriptor(poller, -1) == -1);
    FAILS(EBADF, gannet_poller_add_descriptor(poller, 12345) == -1);
    CHECK(gannet_poller_close(poller) == 0);
    CHECK(gannet_udp_close(one) == 0 && gannet_udp_close(two) == 0);
}

int main(void)
{
    char network[32];
    snprintf(network, sizeof network, "calls-%ld", (long)getpid());
    handles();
    gannet_host *here = host_at(network, "10.0.0.1/24"), *there = host_at(network, "10.0.0.2/24");
    gannet_builder *twice = gannet_builder_new();
    CHECK(gannet_builder_channel(twice, network, "10.0.0.1/24") == 0);
    FAILS(EADDRINUSE, gannet_builder_build(twice) == NULL);
    struct sockaddr_storage own[2];
    CHECK(gannet_host_addresses(here, own, 2) == 1 && own[0].ss_family == AF_INET);
    CHECK(gannet_host_addresses(here, NULL, 0) == 1);
    stream(here, there);
    datagrams(here, there);
    gannet_counts counts;
    CHECK(gannet_host_count(here, &counts, sizeof counts) == 0);
    CHECK(counts.udp_packets_in == 2 && counts.tcp_packets_out > 1);
    struct place lease = {.length = sizeof lease.at};
    FAILS(EAGAIN, gannet_host_wait_for_lease(here, 1, (struct sockaddr *)&lease.at,
                                             &lease.length) == -1);
    CHECK(gannet_host_undelivered(here) == 0 && gannet_host_connections(here) >= 0);
    CHECK(gannet_host_close(here) == 0 && gannet_host_close(there) == 0);
    printf("%d checks\n", checks);
    return 0;
}
