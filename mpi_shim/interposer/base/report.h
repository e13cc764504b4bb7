/*
 * report.h - writes the shim's lines on stderr, each in one write, so that ranks do not mix
 * them.
 */
#ifndef COSCHED_REPORT_H
#define COSCHED_REPORT_H

#include <stdbool.h>

/* Switches cosched_report_info on (COSCHED_VERBOSE=1) or off (the default). */
void cosched_report_set_verbose(bool verbose);

/* A line for a user who asked for details. */
void cosched_report_info(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A line about the whole job, without this process's number. */
void cosched_report_job(const char *line);

/* A line that every user must see. */
void cosched_report_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Reports that a call cannot be served, and why. Returns MPI's error for the caller. */
int cosched_report_refuse(const char *call, const char *why);

#endif
