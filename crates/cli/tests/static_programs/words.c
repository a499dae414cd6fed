/* What a program finds out about itself. */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static char data[100000] = "data";
static char zeros[100000];
extern char **environ;

int main(int argc, char **argv) {
    char name[32] = "", path[4096] = "", line[4096] = "";
    for (int i = 0; i < argc; i++) printf("%s|", argv[i]);
    prctl(PR_GET_NAME, name);
    long len = readlink("/proc/self/exe", path, sizeof path - 1);
    printf("\n%s %ld %s\n", name, len, path);
    int fd = open("/proc/self/exe", O_RDONLY);
    printf("%zd %.3s\n", read(fd, path, 4), path + 1);
    close(fd);
    fd = open("/proc/self/cmdline", O_RDONLY);
    ssize_t n = read(fd, line, sizeof line);
    for (ssize_t i = 0; i < n; i++) putchar(line[i] ? line[i] : '|');
    const char *as = (const char *)getauxval(AT_EXECFN);
    Elf64_Phdr *headers = (Elf64_Phdr *)getauxval(AT_PHDR);
    int loads = 0;
    for (unsigned long i = 0; i < getauxval(AT_PHNUM); i++) loads += headers[i].p_type == PT_LOAD;
    printf("\n%s %d %lu %lu\n", as, loads > 1, getauxval(AT_BASE), getauxval(AT_PAGESZ));
    long sum = 0;
    for (size_t i = 0; i < sizeof zeros; i++) sum += zeros[i] + (i > 4 ? data[i] : 0);
    /* The end of the data moves, and what is given back comes again as zeros. */
    char *end = (char *)syscall(SYS_brk, 0), *further = end + 300000;
    printf("%ld %d", sum, (char *)syscall(SYS_brk, further) == further);
    memset(end, 1, 300000);
    int back = (char *)syscall(SYS_brk, end) == end;
    printf(" %d %d", back, (char *)syscall(SYS_brk, further) == further);
    for (int i = 4096; i < 300000; i++) sum += end[i];
    int none = (char *)syscall(SYS_brk, 1) == further;
    printf(" %ld %d %d\n", sum, none, (char *)syscall(SYS_brk, ~0UL) == further);
    int kept = 0;
    for (char **text = environ; *text; text++) kept += !strcmp(*text, "KEPT=yes");
    printf("%d %d\n", kept, getppid() > 0);
    return 7;
}
