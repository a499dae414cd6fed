/* A server and its clients in one program: threads that come and go, children, and a signal a
   thousand times a second, whose handler uses the program's own thread-local storage. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static __thread int mine;
static __thread char big[3000];
static volatile long ticks;
static struct sockaddr_in here = {.sin_family = AF_INET};

static void fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    _exit(1);
}

static void tick(int signal) {
    int before = errno;
    errno = 77;
    ticks++;
    big[signal] = (char)mine;
    if (errno != 77) fail("errno is another thread's");
    errno = before;
}

static int transfer(int fd, char *at, int len, int writes) {
    for (int done = 0; done < len;) {
        ssize_t n = writes ? write(fd, at + done, len - done) : read(fd, at + done, len - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return -1;
        done += n;
    }
    return 0;
}

static int dial(void) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (void *)&here, sizeof here)) fail("connect");
    return fd;
}

static void *echo(void *argument) {
    int fd = mine = (long)argument;
    char bytes[4096];
    for (;;) {
        ssize_t n = read(fd, bytes, sizeof bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0 || transfer(fd, bytes, n, 1)) break;
    }
    if (mine != fd) fail("the thread's own word");
    close(fd);
    return 0;
}

static void *serve(void *argument) {
    for (;;) {
        int fd = accept((long)argument, 0, 0);
        if (fd < 0 && errno == EINTR) continue;
        if (fd < 0) fail("accept");
        pthread_t thread;
        if (pthread_create(&thread, 0, echo, (void *)(long)fd)) fail("pthread_create");
        pthread_detach(thread);
    }
}

static void *call(void *argument) {
    int own = mine = 1000 + (long)argument;
    for (int round = 0; round < 3; round++) {
        char sent[600], got[600];
        int fd = dial();
        for (int i = 0; i < 50; i++) {
            int len = 1 + (i * 7 + own) % 599;
            memset(sent, 'a' + (i + own) % 26, len);
            if (transfer(fd, sent, len, 1) || transfer(fd, got, len, 0)) fail("echo");
            if (memcmp(sent, got, len) || mine != own) fail("other bytes");
        }
        close(fd);
    }
    return 0;
}

static void ends_with(pid_t child, int status) {
    int ended = 0;
    while (waitpid(child, &ended, 0) < 0 && errno == EINTR) {}
    if (!WIFEXITED(ended) || WEXITSTATUS(ended) != status) fail("a child");
}

static void children(const char *name) {
    pthread_t thread;
    pid_t child = fork();
    if (!child) {
        call((void *)1);
        if (pthread_create(&thread, 0, call, (void *)2)) fail("pthread_create in a child");
        pthread_join(thread, 0);
        _exit(7);
    }
    ends_with(child, 7);
    char number[12], answer[20];
    int fd = dial();
    sprintf(number, "%d", fd);
    char *words[] = {(char *)name, "child", number, 0};
    if (posix_spawn(&child, "/proc/self/exe", 0, 0, words, environ)) fail("posix_spawn");
    ends_with(child, 42);
    if (transfer(fd, answer, 10, 0) || memcmp(answer, "from child", 10)) fail("a child's bytes");
    close(fd);
}

int main(int argc, char **argv) {
    if (argc > 2) return write(atoi(argv[2]), "from child", 10) == 10 ? 42 : 1;
    socklen_t len = sizeof here;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (void *)&here, len) || listen(listener, 50)) fail("listen");
    getsockname(listener, (void *)&here, &len);
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART}, old;
    sigaction(SIGALRM, &action, 0);
    sigaction(SIGALRM, 0, &old);
    if (old.sa_handler != tick) fail("the handler is another one");
    struct itimerval often = {{0, 1000}, {0, 1000}}, never = {0};
    setitimer(ITIMER_REAL, &often, 0);
    pthread_t server, clients[8];
    pthread_create(&server, 0, serve, (void *)(long)listener);
    for (int round = 0; round < 5; round++) {
        for (long i = 0; i < 8; i++)
            if (pthread_create(&clients[i], 0, call, (void *)i)) fail("pthread_create");
        for (int i = 0; i < 8; i++) pthread_join(clients[i], 0);
        children(argv[0]);
    }
    setitimer(ITIMER_REAL, &never, 0);
    printf("%s\n", ticks > 5 ? "all right" : "no signals");
    return 0;
}
