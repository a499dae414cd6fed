#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

/* Every address of every interface, as the C library finds them by netlink. */
int main(void)
{
    struct ifaddrs *all;
    if (getifaddrs(&all) != 0) {
        perror("getifaddrs");
        return 1;
    }
    for (struct ifaddrs *one = all; one; one = one->ifa_next) {
        char text[INET6_ADDRSTRLEN] = "", mask[INET6_ADDRSTRLEN] = "";
        if (!one->ifa_addr)
            continue;
        int family = one->ifa_addr->sa_family;
        if (family != AF_INET && family != AF_INET6)
            continue;
        size_t at = family == AF_INET ? 4 : 8;
        inet_ntop(family, (char *)one->ifa_addr + at, text, sizeof text);
        inet_ntop(family, (char *)one->ifa_netmask + at, mask, sizeof mask);
        printf("%s %s %s\n", one->ifa_name, text, mask);
    }
    freeifaddrs(all);
    return 0;
}
