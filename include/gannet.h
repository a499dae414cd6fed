/*
 * Gannet: TCP/IP in user space, for C. See examples/c/echo.c for a program.
 *
 *   cc program.c $(pkg-config --cflags --libs gannet)
 *
 * Made from crates/capi by `cargo xtask header`: do not change it here.
 *
 * Handles (gannet_host *, gannet_tcp * and so on) look like pointers and are none: they cannot be
 * followed. One that is NULL, closed, of another kind or made up is recognised: EINVAL for NULL,
 * EBADF for the others. All may be used by several threads at a time.
 *
 * Errors: functions that return an int or a size return -1, those that return a pointer NULL;
 * errno has the number that the kernel's sockets give in the same place (EAGAIN, ECONNREFUSED,
 * ...), and gannet_last_error() says in three lines what could not be done, why, and what to try.
 * EIO is a mistake in the library. Where nothing else is said 0 is success.
 *
 * What a function asks of its pointers is what C asks everywhere: a pointer that is not NULL leads
 * to as much memory as its description says, texts end with a zero and are UTF-8, and nobody else
 * changes either during the call. Pointers are not kept when a call is over.
 *
 * fork(2): a child must not use its parent's handles; it makes a host of its own. No signal is
 * raised, and no signal handler ends a wait.
 */

#ifndef GANNET_H
#define GANNET_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

/**
 * For gannet_listen and gannet_udp_bind on `::`: IPv6 alone, as IPV6_V6ONLY.
 */
#define GANNET_ONLY_V6 1

/**
 * For gannet_udp_bind: together with others that are bound so to the same address and port, as
 * SO_REUSEADDR. Each gets what is sent to the groups it has joined.
 */
#define GANNET_SHARED 2

/**
 * 1: calls fail with EAGAIN rather than waiting; 0: they wait. All sockets.
 */
#define GANNET_NONBLOCKING 1

/**
 * Longest wait of reading, in milliseconds; 0: for ever. TCP, UDP.
 */
#define GANNET_READ_TIMEOUT 2

/**
 * Longest wait of writing, in milliseconds; 0: for ever. TCP, UDP.
 */
#define GANNET_WRITE_TIMEOUT 3

/**
 * 1: small writes leave at once. TCP.
 */
#define GANNET_NODELAY 4

/**
 * Closing waits so many milliseconds for the peer to acknowledge everything; 0: it resets the
 * connection; -1, the default: neither. TCP.
 */
#define GANNET_LINGER 5

/**
 * Probes a silent peer after so many milliseconds; 0: never. TCP, only to be set.
 */
#define GANNET_KEEPALIVE 6

/**
 * Gives up when data stays unacknowledged for so many milliseconds; 0: after a number of
 * retransmissions. TCP, only to be set.
 */
#define GANNET_USER_TIMEOUT 7

/**
 * How many bytes may be written and not yet acknowledged, or taken by the link. TCP, UDP.
 */
#define GANNET_SEND_BUFFER 8

/**
 * How many bytes may wait to be read. TCP, UDP.
 */
#define GANNET_RECEIVE_BUFFER 9

/**
 * How many routers a packet may pass, 1 to 255. TCP, UDP, and a listener's connections to come.
 */
#define GANNET_TTL 10

/**
 * Type of service of packets: Differentiated Services in the upper six bits. TCP, UDP, listeners.
 */
#define GANNET_TOS 11

/**
 * Longest segment in bytes. TCP; listeners (0: no limit). Only to be set.
 */
#define GANNET_MAX_SEGMENT 12

/**
 * 1: datagrams may go to broadcast addresses. UDP.
 */
#define GANNET_BROADCAST 13

/**
 * How many routers datagrams to groups may pass; 1 by default. UDP.
 */
#define GANNET_MULTICAST_TTL 14

/**
 * 1, the default: what is sent to groups comes back to sockets of this host. UDP.
 */
#define GANNET_MULTICAST_LOOP 15

/**
 * How many connections may bring data in their SYN (TCP Fast Open) at a time; 0, the default:
 * none. Listeners, only to be set.
 */
#define GANNET_FAST_OPEN 16

/**
 * There is something to read or to accept, the end of the stream, or an error.
 */
#define GANNET_READABLE 1

/**
 * There is room to write, a connection that was being opened is open, or an error.
 */
#define GANNET_WRITABLE 2

/**
 * The socket has failed: gannet_tcp_take_error says why. Told whether asked for or not.
 */
#define GANNET_FAILED 4

/**
 * What a host is to be made of. Texts are looked at when it is built.
 */
typedef struct gannet_builder gannet_builder;

/**
 * A host: links with addresses and a TCP/IP stack of its own, inside this process.
 */
typedef struct gannet_host gannet_host;

/**
 * A socket that waits for TCP connections.
 */
typedef struct gannet_listener gannet_listener;

/**
 * Waits for many sockets of one host.
 */
typedef struct gannet_poller gannet_poller;

/**
 * Received bytes where the sender, or the device, left them.
 */
typedef struct gannet_recv_block gannet_recv_block;

/**
 * Memory that the peer, or the device, will read directly: fill it, then send it.
 */
typedef struct gannet_send_block gannet_send_block;

/**
 * A TCP connection.
 */
typedef struct gannet_tcp gannet_tcp;

/**
 * A UDP socket.
 */
typedef struct gannet_udp gannet_udp;

/**
 * What gannet_host_count tells, since the host was made. Later versions add fields at the end.
 */
typedef struct {
    /**
     * Packets of TCP that arrived.
     */
    uint64_t tcp_packets_in;
    /**
     * Their bytes.
     */
    uint64_t tcp_bytes_in;
    /**
     * Packets of TCP that left; one may be as long as many of the wire's.
     */
    uint64_t tcp_packets_out;
    /**
     * Their bytes.
     */
    uint64_t tcp_bytes_out;
    /**
     * Packets of UDP that arrived.
     */
    uint64_t udp_packets_in;
    /**
     * Their bytes.
     */
    uint64_t udp_bytes_in;
    /**
     * Packets of UDP that left.
     */
    uint64_t udp_packets_out;
    /**
     * Their bytes.
     */
    uint64_t udp_bytes_out;
    /**
     * Packets thrown away, for whatever reason.
     */
    uint64_t dropped;
} gannet_counts;

/**
 * How gannet_tcp_connect_with connects. Set it to zero, then what is to be different.
 */
typedef struct {
    /**
     * Address and port to come from; NULL: the host's choice. Port 0: a free one.
     */
    const struct sockaddr *from;
    /**
     * Length of that.
     */
    socklen_t from_length;
    /**
     * Longest wait in milliseconds; 0 or less: as long as TCP tries.
     */
    int timeout_ms;
    /**
     * 1: returns at once, see gannet_tcp_connect_nonblocking.
     */
    int nonblocking;
} gannet_connect_options;

/**
 * What gannet_tcp_describe tells. Times in nanoseconds, sizes in bytes. Later versions add fields
 * at the end.
 */
typedef struct {
    /**
     * State, numbered as in Linux's struct tcp_info: see gannet_tcp_state_name.
     */
    uint32_t state;
    /**
     * Largest segment we send, without headers.
     */
    uint32_t send_mss;
    /**
     * Round trip, smoothed; 0 before it was measured.
     */
    uint64_t rtt_ns;
    /**
     * Its variation.
     */
    uint64_t rtt_variation_ns;
    /**
     * The shortest round trip.
     */
    uint64_t rtt_min_ns;
    /**
     * Retransmission time-out.
     */
    uint64_t rto_ns;
    /**
     * Congestion window.
     */
    uint32_t congestion_window;
    /**
     * Slow start threshold.
     */
    uint32_t slow_start_threshold;
    /**
     * Window that the peer offers.
     */
    uint32_t send_window;
    /**
     * Window that we offer.
     */
    uint32_t receive_window;
    /**
     * Sent and not acknowledged.
     */
    uint32_t in_flight;
    /**
     * Written and not sent.
     */
    uint32_t unsent;
    /**
     * Received and not read.
     */
    uint32_t unread;
    /**
     * Received behind a hole.
     */
    uint32_t out_of_order;
    /**
     * Size of the send buffer.
     */
    uint32_t send_buffer;
    /**
     * Size of the receive buffer.
     */
    uint32_t receive_buffer;
    /**
     * Bytes that the peer has acknowledged.
     */
    uint64_t bytes_acknowledged;
    /**
     * Bytes received in order.
     */
    uint64_t bytes_received;
    /**
     * Segments sent.
     */
    uint64_t segments_sent;
    /**
     * Segments received.
     */
    uint64_t segments_received;
    /**
     * Segments sent again.
     */
    uint64_t retransmissions;
    /**
     * Retransmission time-outs.
     */
    uint64_t timeouts;
    /**
     * Losses that were found without a time-out.
     */
    uint64_t fast_recoveries;
    /**
     * Bytes each second that leave at most; 0: not limited.
     */
    uint64_t pacing_rate;
} gannet_tcp_info;

/**
 * Where one of many datagrams lies.
 */
typedef struct {
    /**
     * Its first byte in the buffer.
     */
    size_t offset;
    /**
     * Number of bytes.
     */
    size_t length;
    /**
     * Who sent it.
     */
    struct sockaddr_storage from;
    /**
     * Length of that address.
     */
    socklen_t from_length;
} gannet_datagram;

/**
 * A socket that is ready.
 */
typedef struct {
    /**
     * As given to gannet_poller_add.
     */
    uint64_t token;
    /**
     * GANNET_READABLE, GANNET_WRITABLE, GANNET_FAILED.
     */
    unsigned int ready;
} gannet_event;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Why the last call that failed in this thread did so: three lines, "cannot ...", "why: ..." and
 * "try: ...", without a newline at the end. The empty text when none has. The text stays until
 * another call fails in this thread.
 */
const char *gannet_last_error(void);

/**
 * The version of the library, such as "0.1.0".
 */
const char *gannet_version(void);

/**
 * Reads `text`, `10.0.0.1:80` or `[fd00::1]:80`, into `*address` and its length into `*length`.
 * No name service is asked.
 *
 * Returns 0; -1 with EINVAL when it is no address with a port.
 */
int gannet_address(const char *text, struct sockaddr_storage *address, socklen_t *length);

/**
 * Begins to describe a host: name its links, then gannet_builder_build.
 *
 * Returns the builder; NULL when there are too many handles (EMFILE).
 */
gannet_builder *gannet_builder_new(void);

/**
 * Adds a link to `network`, the network of that name of this user's processes, as `address`
 * ("10.0.0.1/24"). Processes that joined it reach each other over shared memory.
 */
int gannet_builder_channel(gannet_builder *builder, const char *network, const char *address);

/**
 * Adds a link by the Ethernet interface `interface`, beside the kernel, as `address`, which should
 * not be one of the kernel's, or "dhcp". Needs CAP_NET_RAW.
 */
int gannet_builder_packet(gannet_builder *builder, const char *interface, const char *address);

/**
 * Adds a link by the TAP device `name`, made if it is not there: an Ethernet with the kernel at
 * the other end. Needs CAP_NET_ADMIN.
 */
int gannet_builder_tap(gannet_builder *builder, const char *name, const char *address);

/**
 * Adds a link by a TUN or TAP device that is open as the descriptor `device`, made with IFF_NO_PI
 * and IFF_VNET_HDR; the host takes a copy of the descriptor. `mtu` is the device's, in bytes;
 * `hardware` are the 6 bytes of our hardware address, NULL for TUN.
 */
int gannet_builder_tap_fd(gannet_builder *builder,
                          int device,
                          uint32_t mtu,
                          const uint8_t *hardware,
                          const char *address);

/**
 * One more address, of either family ("fd00::2/64"), for the link named last.
 */
int gannet_builder_address(gannet_builder *builder, const char *address);

/**
 * Packets for `network` ("10.1.0.0/16") go through `gateway`, a neighbour on one of the links.
 */
int gannet_builder_route(gannet_builder *builder, const char *network, const char *gateway);

/**
 * Everything that nothing else leads anywhere goes through `gateway`.
 */
int gannet_builder_gateway(gannet_builder *builder, const char *gateway);

/**
 * The routers of the Ethernet named last may give the host addresses of IPv6.
 */
int gannet_builder_autoconf(gannet_builder *builder);

/**
 * The link named last, an Ethernet, is on the VLAN `id`, 1 to 4094.
 */
int gannet_builder_vlan(gannet_builder *builder, uint16_t id);

/**
 * Writes down what passes every link: a pcapng file for each in `directory`, which must exist.
 */
int gannet_builder_capture(gannet_builder *builder, const char *directory);

/**
 * Lowers the MTU of TAP and TUN devices that are made, in bytes.
 */
int gannet_builder_mtu(gannet_builder *builder, uint32_t bytes);

/**
 * Sets one of Gannet's settings by name: "tcp.congestion=bbr", "profile=latency". The command
 * `gannet config show` has the names, with what they take. What is said last counts;
 * gannet_builder_spin and gannet_builder_mtu count more.
 *
 * Returns 0; -1 with EINVAL for an unknown name or a value that cannot be, and then
 * gannet_last_error says what was probably meant.
 */
int gannet_builder_setting(gannet_builder *builder, const char *setting);

/**
 * The settings of this user count: the file of settings and the GANNET_ variables, as for
 * `gannet run`. What gannet_builder_setting says counts more.
 *
 * Returns 0; -1 with EINVAL when one of them is unknown or cannot be.
 */
int gannet_builder_environment(gannet_builder *builder);

/**
 * How long a call that waits spins before it sleeps, in microseconds; 50 by default. 0: never.
 */
int gannet_builder_spin(gannet_builder *builder, unsigned int at_most);

/**
 * How long the end of the host waits for what was written to reach its peers, in milliseconds;
 * 2000 by default. Negative: for ever.
 */
int gannet_builder_linger(gannet_builder *builder, int at_most);

/**
 * Makes the host. The builder is gone afterwards, whatever comes of it.
 *
 * Returns the host; NULL with EINVAL for texts that are no addresses, or no link at all,
 * EADDRINUSE when a living process has the address in the network, EPERM or EACCES, ENODEV or
 * ENOENT for interfaces.
 */
gannet_host *gannet_builder_build(gannet_builder *builder);

/**
 * Throws a builder away.
 */
int gannet_builder_close(gannet_builder *builder);

/**
 * Writes the host's addresses (with port 0) to `addresses`, at most `most` of them.
 *
 * Returns how many there are, which may be more; -1 on failure.
 */
ssize_t gannet_host_addresses(const gannet_host *host,
                              struct sockaddr_storage *addresses,
                              size_t most);

/**
 * Number of TCP connections in any state, TIME-WAIT included; -1 on failure.
 */
ssize_t gannet_host_connections(const gannet_host *host);

/**
 * Number of TCP connections that were closed here and whose peer has not acknowledged everything
 * yet; -1 on failure.
 */
ssize_t gannet_host_undelivered(const gannet_host *host);

/**
 * Waits until a DHCP server has granted an address to a link whose address is "dhcp", at most so
 * many milliseconds (negative: for ever), and writes it to `address`, with port 0, unless that is
 * NULL.
 *
 * Returns 0; -1 with EAGAIN when there was none in time.
 */
int gannet_host_wait_for_lease(const gannet_host *host,
                               int at_most,
                               struct sockaddr *address,
                               socklen_t *length);

/**
 * Counts of the host: writes the first `size` bytes of what this version knows to `*counts`;
 * `size` is sizeof *counts.
 */
int gannet_host_count(const gannet_host *host, gannet_counts *counts, size_t size);

/**
 * Closes the handle. The host ends with the last of its sockets, after what was written has
 * reached its peers (or gannet_builder_linger has passed).
 *
 * Returns 0; -1 with EBADF when it is none, or closed.
 */
int gannet_host_close(gannet_host *host);

/**
 * Waits for TCP connections at `address` (0.0.0.0: at all addresses of the host, `::`: at those of
 * both families; port 0: a free one). At most `backlog` wait to be accepted; 0 or less: 4096.
 * `flags` is 0 or GANNET_ONLY_V6. Connections in TIME-WAIT are no obstacle.
 *
 * Returns the listener; NULL with EADDRINUSE, or EADDRNOTAVAIL when the host does not have the
 * address.
 */
gannet_listener *gannet_listen(const gannet_host *host,
                               const struct sockaddr *address,
                               socklen_t length,
                               int backlog,
                               unsigned int flags);

/**
 * The next connection, and the address it comes from, unless `address` is NULL. Waits for one
 * unless the option GANNET_NONBLOCKING is set. The connection itself waits in its calls, whatever
 * the listener does.
 *
 * Returns the connection; NULL with EAGAIN when there is none, ECONNABORTED when it ended
 * meanwhile.
 */
gannet_tcp *gannet_accept(const gannet_listener *listener,
                          struct sockaddr *address,
                          socklen_t *length);

/**
 * Where it listens: the port, if it was 0.
 */
int gannet_listener_address(const gannet_listener *listener,
                            struct sockaddr *address,
                            socklen_t *length);

/**
 * Closes it. Connections that nobody has accepted are reset. A thread that waits in gannet_accept
 * goes on waiting, and the listener with it: use GANNET_NONBLOCKING and a poller where that
 * matters.
 *
 * Returns 0; -1 with EBADF when it is none, or closed.
 */
int gannet_listener_close(gannet_listener *listener);

/**
 * Connects to `address` and waits until the connection is open.
 *
 * Returns the connection; NULL with ECONNREFUSED when nobody listens there, EHOSTUNREACH when no
 * process of the network has the address, ENETUNREACH without a route, ETIMEDOUT.
 */
gannet_tcp *gannet_tcp_connect(const gannet_host *host,
                               const struct sockaddr *address,
                               socklen_t length);

/**
 * Begins to connect to `address` and returns at once; the connection has GANNET_NONBLOCKING set.
 * A poller tells what comes of it: writable when it is open, failed when it will not be, and then
 * gannet_tcp_take_error says why. Until then reading and writing fail with EAGAIN.
 *
 * Returns the connection; NULL for what is known at once.
 */
gannet_tcp *gannet_tcp_connect_nonblocking(const gannet_host *host,
                                           const struct sockaddr *address,
                                           socklen_t length);

/**
 * Connects to `address` as `options` say; NULL: as gannet_tcp_connect.
 *
 * Returns the connection; NULL as there, and with EADDRNOTAVAIL when the address to come from is
 * not the host's, or its port is taken.
 */
gannet_tcp *gannet_tcp_connect_with(const gannet_host *host,
                                    const struct sockaddr *address,
                                    socklen_t length,
                                    const gannet_connect_options *options);

/**
 * Whether the handshake of gannet_tcp_connect_nonblocking still goes on: 1 or 0, -1 on failure.
 */
int gannet_tcp_is_connecting(const gannet_tcp *tcp);

/**
 * Reads up to `size` bytes.
 *
 * Returns how many, 0 at the end of the stream; -1 with EAGAIN when there are none and it must not
 * wait (or has waited as long as GANNET_READ_TIMEOUT), ECONNRESET, ETIMEDOUT.
 */
ssize_t gannet_tcp_read(const gannet_tcp *tcp, void *buffer, size_t size);

/**
 * As gannet_tcp_read with `flags`: MSG_PEEK leaves the bytes to be read again. No other flag is
 * known (EOPNOTSUPP).
 */
ssize_t gannet_tcp_recv(const gannet_tcp *tcp, void *buffer, size_t size, int flags);

/**
 * As gannet_tcp_read into `count` pieces, one after the other.
 */
ssize_t gannet_tcp_readv(const gannet_tcp *tcp, const struct iovec *list, int count);

/**
 * Writes `size` bytes: all of them, waiting for room as often as needed; fewer only when it must
 * not wait, or GANNET_WRITE_TIMEOUT has passed. No signal is ever raised.
 *
 * Returns how many; -1 with EAGAIN when there was no room at all, EPIPE after gannet_tcp_shutdown
 * or when the connection has ended, ECONNRESET.
 */
ssize_t gannet_tcp_write(const gannet_tcp *tcp, const void *data, size_t size);

/**
 * As gannet_tcp_write with `count` pieces, one after the other.
 */
ssize_t gannet_tcp_writev(const gannet_tcp *tcp, const struct iovec *list, int count);

/**
 * Closes one direction or both: SHUT_RD, SHUT_WR, SHUT_RDWR. After SHUT_WR the peer reads the end
 * of the stream.
 *
 * Returns 0; -1 with ENOTCONN when the connection has ended.
 */
int gannet_tcp_shutdown(const gannet_tcp *tcp, int how);

/**
 * Our address and port.
 */
int gannet_tcp_local_address(const gannet_tcp *tcp, struct sockaddr *address, socklen_t *length);

/**
 * The peer's address and port.
 */
int gannet_tcp_peer_address(const gannet_tcp *tcp, struct sockaddr *address, socklen_t *length);

/**
 * Takes the error that the next call would report, as SO_ERROR does.
 *
 * Returns 0 when there is none, else its number, which is also in errno, with
 * gannet_last_error; -1 with EBADF or EINVAL for a bad handle.
 */
int gannet_tcp_take_error(const gannet_tcp *tcp);

/**
 * Sets the congestion control of this connection by name: "cubic", "newreno", "bbr".
 *
 * Returns 0; -1 with ENOENT when there is none of that name.
 */
int gannet_tcp_set_congestion_control(const gannet_tcp *tcp, const char *name);

/**
 * Closes the connection: what was written still reaches the peer; bytes that nobody read make it a
 * reset. A call of another thread that is under way goes on, and the connection with it: end it
 * with gannet_tcp_shutdown first.
 *
 * Returns 0; -1 with EBADF when it is none, or closed.
 */
int gannet_tcp_close(gannet_tcp *tcp);

/**
 * Describes the connection: writes the first `size` bytes of what this version knows to `*info`;
 * `size` is sizeof *info, whichever version the program was built with.
 *
 * Returns 0; -1 with ENOTCONN when it has ended and nothing is left of it.
 */
int gannet_tcp_describe(const gannet_tcp *tcp, gannet_tcp_info *info, size_t size);

/**
 * The name of a state in gannet_tcp_info, such as "ESTABLISHED"; "?" for a number that is none.
 */
const char *gannet_tcp_state_name(uint32_t state);

/**
 * A block of the connection's memory, to be filled and sent with gannet_tcp_send_block: nothing is
 * copied on the way, not even to another process. Waits while all are under way.
 *
 * Returns the block; NULL as gannet_tcp_write fails.
 */
gannet_send_block *gannet_tcp_take_block(const gannet_tcp *tcp);

/**
 * Where its bytes are to be written, and into `*size`, unless that is NULL, how many there are.
 * They are good until the block is sent or closed; bytes that were not written keep what an
 * earlier use by this process left there.
 *
 * Returns the address; NULL with EBADF or EINVAL.
 */
void *gannet_send_block_data(const gannet_send_block *block, size_t *size);

/**
 * Sends the first `length` bytes of the block, which is gone afterwards. Waits for room as
 * gannet_tcp_write.
 *
 * Returns 0; -1 with EAGAIN when there is no room, and then the block is still there, to be sent
 * later; with anything else the block is gone: EINVAL when `length` is 0 or larger than the block,
 * or the block is not of this connection's link, else as gannet_tcp_write.
 */
int gannet_tcp_send_block(const gannet_tcp *tcp, gannet_send_block *block, size_t length);

/**
 * Gives a block back unsent.
 */
int gannet_send_block_close(gannet_send_block *block);

/**
 * The next received bytes where they lie, as `*block`: at most one block's worth. The sender's
 * memory is held until gannet_recv_block_close, so do not keep it for long.
 *
 * Returns 1; 0 at the end of the stream, without a block; -1 as gannet_tcp_read.
 */
int gannet_tcp_recv_block(const gannet_tcp *tcp, gannet_recv_block **block);

/**
 * Where its bytes lie, and into `*size`, unless that is NULL, how many there are. Another process
 * may be able to change them while they are read: copy what must not change under your eyes, and
 * check the copy.
 *
 * Returns the address; NULL with EBADF or EINVAL.
 */
const void *gannet_recv_block_data(const gannet_recv_block *block, size_t *size);

/**
 * Lets the bytes go: their memory goes back to the sender.
 */
int gannet_recv_block_close(gannet_recv_block *block);

/**
 * A socket at `address` (0.0.0.0: at all addresses of the host, `::`: at those of both families;
 * port 0: a free one). `flags` is 0, GANNET_ONLY_V6 or GANNET_SHARED.
 *
 * Returns the socket; NULL with EADDRINUSE, or EADDRNOTAVAIL when the host does not have the
 * address.
 */
gannet_udp *gannet_udp_bind(const gannet_host *host,
                            const struct sockaddr *address,
                            socklen_t length,
                            unsigned int flags);

/**
 * From now on the socket talks to `address` alone: gannet_udp_send and gannet_udp_recv work,
 * others' datagrams are not taken.
 *
 * Returns 0; -1 with ENETUNREACH, EHOSTUNREACH, EINVAL when it is no host.
 */
int gannet_udp_connect(const gannet_udp *udp, const struct sockaddr *address, socklen_t length);

/**
 * Sends one datagram to the connected peer.
 *
 * Returns its length; -1 with EDESTADDRREQ when the socket is not connected, EMSGSIZE, EAGAIN,
 * ECONNREFUSED when an earlier one met nobody.
 */
ssize_t gannet_udp_send(const gannet_udp *udp, const void *data, size_t size);

/**
 * Sends one datagram to `address`.
 *
 * Returns its length; -1 with EMSGSIZE, EAGAIN, ENETUNREACH, EHOSTUNREACH, EACCES for a broadcast
 * address without GANNET_BROADCAST.
 */
ssize_t gannet_udp_sendto(const gannet_udp *udp,
                          const void *data,
                          size_t size,
                          const struct sockaddr *address,
                          socklen_t length);

/**
 * Receives one datagram; what does not fit into `size` bytes is lost. `flags` is 0, or MSG_PEEK to
 * leave it to be received again.
 *
 * Returns the bytes written to `buffer`; -1 with EAGAIN, ECONNREFUSED when an earlier one of ours
 * met nobody.
 */
ssize_t gannet_udp_recv(const gannet_udp *udp, void *buffer, size_t size, int flags);

/**
 * As gannet_udp_recv, and who sent it, unless `address` is NULL.
 */
ssize_t gannet_udp_recvfrom(const gannet_udp *udp,
                            void *buffer,
                            size_t size,
                            int flags,
                            struct sockaddr *address,
                            socklen_t *length);

/**
 * The socket's address and port.
 */
int gannet_udp_local_address(const gannet_udp *udp, struct sockaddr *address, socklen_t *length);

/**
 * The connected peer's address and port; -1 with ENOTCONN without one.
 */
int gannet_udp_peer_address(const gannet_udp *udp, struct sockaddr *address, socklen_t *length);

/**
 * Takes the error that the next call would report, as gannet_tcp_take_error.
 */
int gannet_udp_take_error(const gannet_udp *udp);

/**
 * How many datagrams were lost so far because too many bytes waited to be received; -1 on failure.
 */
int64_t gannet_udp_dropped(const gannet_udp *udp);

/**
 * Closes the socket. A call of another thread that is under way goes on, and the socket with it.
 *
 * Returns 0; -1 with EBADF when it is none, or closed.
 */
int gannet_udp_close(gannet_udp *udp);

/**
 * Sends the datagrams that lie back to back in `data`, `size` bytes each (the last may be
 * shorter), to `address`, or to the connected peer when that is NULL.
 *
 * Returns how many were sent, at least one; -1 as gannet_udp_sendto, and with EINVAL when `size`
 * is 0.
 */
int gannet_udp_send_batch(const gannet_udp *udp,
                          const void *data,
                          size_t total,
                          size_t size,
                          const struct sockaddr *address,
                          socklen_t length);

/**
 * Fills `buffer` back to back with as many datagrams as are there and fit, and says in `places`,
 * of which there are `most`, where each lies. At most 64 with one call. Waits for the first.
 *
 * Returns how many came; -1 as gannet_udp_recv.
 */
int gannet_udp_recv_batch(const gannet_udp *udp,
                          void *buffer,
                          size_t size,
                          gannet_datagram *places,
                          int most);

/**
 * The socket gets what is sent to `group` ("239.1.2.3", "ff02::1:3") at its port. `interface` says
 * by which link: of IPv4 the host's address on it ("10.0.0.1"), of IPv6 its number, counted from 1
 * ("2"); NULL: the host's choice.
 *
 * Returns 0; -1 with EINVAL for no group, ENODEV or EADDRNOTAVAIL for no such link, EADDRINUSE
 * when it is in that group there.
 */
int gannet_udp_join(const gannet_udp *udp, const char *group, const char *interface);

/**
 * Takes back what gannet_udp_join did; closing the socket does it, too.
 *
 * Returns 0; -1 with EADDRNOTAVAIL when the socket is not in that group there.
 */
int gannet_udp_leave(const gannet_udp *udp, const char *group, const char *interface);

/**
 * The socket gets what `source` sends to `group` at its port, by the link with the number
 * `interface`, counted from 1 (0: the host's choice), beside what other sources send that it has
 * joined so (RFC 3678).
 *
 * Returns 0; -1 as gannet_udp_join.
 */
int gannet_udp_join_source(const gannet_udp *udp,
                           const char *group,
                           const char *source,
                           uint32_t interface);

/**
 * Takes back what gannet_udp_join_source did.
 *
 * Returns 0; -1 with EADDRNOTAVAIL when it was not done.
 */
int gannet_udp_leave_source(const gannet_udp *udp,
                            const char *group,
                            const char *source,
                            uint32_t interface);

/**
 * Sets an option of a gannet_tcp, gannet_listener or gannet_udp: `option` is one of the GANNET_
 * numbers above, which say what `value` means and who has the option.
 *
 * Returns 0; -1 with ENOPROTOOPT when sockets of this kind do not have it, EINVAL for a value out
 * of range, EBADF.
 */
int gannet_set_option(const void *socket, int option, int64_t value);

/**
 * Writes the value of an option to `*value`.
 *
 * Returns 0; -1 as gannet_set_option, and with ENOPROTOOPT for options that can only be set.
 */
int gannet_get_option(const void *socket, int option, int64_t *value);

/**
 * A poller for sockets of `host`; it watches nothing yet.
 */
gannet_poller *gannet_poller_new(const gannet_host *host);

/**
 * Watches `socket`, a gannet_tcp, gannet_listener or gannet_udp, for `interest`: GANNET_READABLE,
 * GANNET_WRITABLE, both, or 0 for failures alone. Its events carry `token`.
 *
 * Returns 0; -1 with EEXIST when it is watched already, EINVAL for a socket of another host,
 * EBADF.
 */
int gannet_poller_add(const gannet_poller *poller,
                      const void *socket,
                      uint64_t token,
                      unsigned int interest);

/**
 * Changes what is asked of `socket`.
 *
 * Returns 0; -1 with ENOENT when it is not watched, EINVAL, EBADF.
 */
int gannet_poller_modify(const gannet_poller *poller,
                         const void *socket,
                         uint64_t token,
                         unsigned int interest);

/**
 * No longer watches `socket`; closing a socket does that, too.
 *
 * Returns 0; -1 with ENOENT when it is not watched, EINVAL, EBADF.
 */
int gannet_poller_remove(const gannet_poller *poller, const void *socket);

/**
 * Waits until a watched socket is ready, gannet_poller_wake is called, or `timeout` milliseconds
 * have passed (0: does not wait; negative: for ever). Level-triggered: a socket is told of for as
 * long as it is ready. A signal handler does not end the wait.
 *
 * Returns how many events were written to `events`, at most `most`; 0 when time is up or somebody
 * woke it; -1 on failure.
 */
int gannet_poller_wait(const gannet_poller *poller, gannet_event *events, int most, int timeout);

/**
 * From now on gannet_poller_wait ends, without an event, also when `descriptor`, one of the
 * kernel's, can be read: until it is closed, or the poller is. A program with an event loop of its
 * own gives its epoll descriptor, sleeps here, and asks its loop without waiting whenever this
 * returns.
 *
 * Returns 0; -1 with EBADF, or EPERM for one that cannot be waited for.
 */
int gannet_poller_add_descriptor(const gannet_poller *poller, int descriptor);

/**
 * Ends a gannet_poller_wait of another thread, or the next one.
 */
int gannet_poller_wake(const gannet_poller *poller);

/**
 * Closes the poller; the sockets that it watched are as before.
 */
int gannet_poller_close(gannet_poller *poller);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* GANNET_H */
