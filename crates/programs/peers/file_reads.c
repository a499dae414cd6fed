/* What a call on a file costs: file_reads read|pread FILE CALLS, prints nanoseconds per call. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int main(int count, char **words)
{
    if (count != 4)
        return 2;
    int file = open(words[2], O_RDONLY);
    if (file < 0)
        return 1;
    long calls = atol(words[3]);
    int is_read = strcmp(words[1], "read") == 0;
    char byte;
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (long i = 0; i < calls; i++) {
        /* After the first few reads at the end of the file: the cheapest call there is. */
        ssize_t got = is_read ? read(file, &byte, 1) : pread(file, &byte, 1, 0);
        if (got < 0)
            return 1;
    }
    clock_gettime(CLOCK_MONOTONIC, &to);
    double time = (to.tv_sec - from.tv_sec) * 1e9 + (to.tv_nsec - from.tv_nsec);
    printf("%.2f\n", time / calls);
    return 0;
}
