#define _GNU_SOURCE
#include "base/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/pmpi.h"

static bool is_verbose;

static void write_line(bool with_pid, const char *format, va_list arguments) {
    char line[768];
    int head = with_pid ? snprintf(line, sizeof line, "cosched: pid %d: ", (int)getpid())
                        : snprintf(line, sizeof line, "cosched: ");
    int body = vsnprintf(line + head, sizeof line - (size_t)head - 1, format, arguments);
    size_t length = (size_t)head + (body < 0 ? 0 : (size_t)body);
    if (length > sizeof line - 2)
        length = sizeof line - 2;
    line[length++] = '\n';
    ssize_t ignored = write(STDERR_FILENO, line, length);
    (void)ignored;
}

void cosched_report_set_verbose(bool verbose) { is_verbose = verbose; }

void cosched_report_info(const char *format, ...) {
    va_list arguments;
    if (!is_verbose)
        return;
    va_start(arguments, format);
    write_line(true, format, arguments);
    va_end(arguments);
}

static void write_job_line(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    write_line(false, format, arguments);
    va_end(arguments);
}

void cosched_report_job(const char *line) { write_job_line("%s", line); }

void cosched_report_warn(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    write_line(true, format, arguments);
    va_end(arguments);
}

int cosched_report_refuse(const char *call, const char *why) {
    cosched_report_warn("%s: %s", call, why);
    return MPI_ERR_OTHER;
}
