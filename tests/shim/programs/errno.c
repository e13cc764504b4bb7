/*
 * errno - prints errno at the beginning of main.
 */
#include <errno.h>
#include <stdio.h>

int main(void) {
    printf("%d\n", errno);
    return 0;
}
