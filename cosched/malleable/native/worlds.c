#define _GNU_SOURCE
#include "worlds.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The generation of the change that made a process: a variable that env(1) sets, so that the program
 * gets the arguments that it was started with. */
static const char VARIABLE[] = "COSCHED_GENERATION";
static char ENV[] = "/usr/bin/env";
static const uint64_t GENERATION_MOST = UINT64_C(1) << 62;

uint64_t cosched_worlds_own_generation(void) {
    const char *text = getenv(VARIABLE);
    MPI_Comm parent;
    char *end;
    uint64_t found;
    MPI_Comm_get_parent(&parent);
    if (text == NULL || parent == MPI_COMM_NULL) /* a child of a rank can have the variable, too */
        return 0;
    errno = 0;
    found = strtoull(text, &end, 10);
    return errno == 0 && *text != 0 && *end == 0 && found < GENERATION_MOST ? found : 0;
}

void cosched_worlds_bcast(MPI_Comm comm, void *data, uint64_t bytes) {
    uint8_t *at = data;
    while (bytes > 0) {
        const int piece = bytes < INT_MAX ? (int)bytes : INT_MAX;
        MPI_Bcast(at, piece, MPI_BYTE, 0, comm);
        at += piece;
        bytes -= (uint64_t)piece;
    }
}

/* --- starting --------------------------------------------------------------------------------- */

/* The command of this process, for a new world. */
struct command {
    char generation[64];
    char program[PATH_MAX];
    char *text;   /* the arguments of this process, each with its 0 byte */
    char **words; /* all arguments of env; NULL is the last one */
};

static char *read_arguments(uint64_t *bytes) {
    const int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    uint64_t room = 4096;
    char *text = malloc(room);
    ssize_t got = 1;
    *bytes = 0;
    while (file >= 0 && text != NULL && got > 0) {
        got = read(file, text + *bytes, room - *bytes - 1);
        *bytes += got > 0 ? (uint64_t)got : 0;
        if (*bytes + 1 == room) {
            char *larger = realloc(text, room *= 2);
            if (larger == NULL)
                free(text);
            text = larger;
        }
    }
    if (file >= 0)
        close(file);
    if (file >= 0 && got == 0 && text != NULL) {
        text[*bytes] = 0;
        return text;
    }
    free(text);
    return NULL;
}

static int make_command(struct command *command, uint64_t generation) {
    uint64_t bytes, words = 3;
    const ssize_t length =
        readlink("/proc/self/exe", command->program, sizeof command->program - 1);
    command->text = read_arguments(&bytes);
    command->words = NULL;
    if (command->text != NULL)
        command->words = calloc(bytes + 4, sizeof *command->words);
    if (length <= 0 || command->words == NULL) {
        free(command->text);
        return -EIO;
    }
    command->program[length] = 0;
    snprintf(command->generation, sizeof command->generation, "%s=%llu", VARIABLE,
             (unsigned long long)generation);
    command->words[0] = command->generation;
    command->words[1] = command->program;
    words = 2;
    for (char *word = command->text + strlen(command->text) + 1; word < command->text + bytes;
         word += strlen(word) + 1)
        command->words[words++] = word;
    return 0;
}

static void free_command(struct command *command) {
    free(command->text);
    free(command->words);
}

/* The arguments of MPI_Comm_spawn_multiple: one command for each host in a row. */
struct starts {
    int count;
    char **commands;
    char ***arguments;
    int *ranks;
    MPI_Info *infos;
};

static void free_starts(struct starts *starts) {
    for (int i = 0; i < starts->count; i++)
        if (starts->infos[i] != MPI_INFO_NULL)
            MPI_Info_free(&starts->infos[i]);
    free(starts->commands);
    free(starts->arguments);
    free(starts->ranks);
    free(starts->infos);
}

static int make_starts(struct starts *starts, const struct cosched_plan *plan, char **words) {
    starts->count = 0;
    starts->commands = calloc(plan->spawned, sizeof *starts->commands);
    starts->arguments = calloc(plan->spawned, sizeof *starts->arguments);
    starts->ranks = calloc(plan->spawned, sizeof *starts->ranks);
    starts->infos = calloc(plan->spawned, sizeof *starts->infos);
    if (!starts->commands || !starts->arguments || !starts->ranks || !starts->infos)
        return -ENOMEM;
    for (uint32_t i = 0; i < plan->spawned; i++) {
        const char *host = plan->spawned_spots[i].host;
        const int at = starts->count;
        if (i > 0 && strcmp(host, plan->spawned_spots[i - 1].host) == 0) {
            starts->ranks[at - 1]++;
            continue;
        }
        starts->commands[at] = ENV;
        starts->arguments[at] = words;
        starts->ranks[at] = 1;
        starts->infos[at] = MPI_INFO_NULL;
        if (*host != 0) {
            MPI_Info_create(&starts->infos[at]);
            MPI_Info_set(starts->infos[at], "host", host);
        }
        starts->count++;
    }
    return 0;
}

/* Of several lines the last one has the cause. */
static void describe(int code, char *why) {
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    const char *line;
    int length;
    MPI_Error_string(code, text, &length);
    while (length > 0 && text[length - 1] == '\n')
        text[--length] = 0;
    line = strrchr(text, '\n');
    snprintf(why, COSCHED_WHY_BYTES, "%.255s", line == NULL ? text : line + 1);
}

/* An error of MPI_Comm_spawn would otherwise end the program. The bond can inherit that handler of
 * errors, and the job's next communicator that of the bond. So the bond gets the program's, too. */
static int spawn_quietly(MPI_Comm comm, const struct starts *starts, MPI_Comm *bond) {
    MPI_Errhandler handler;
    int code;
    MPI_Comm_get_errhandler(comm, &handler);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    code = MPI_Comm_spawn_multiple(starts->count, starts->commands, starts->arguments,
                                   starts->ranks, starts->infos, 0, comm, bond,
                                   MPI_ERRCODES_IGNORE);
    MPI_Comm_set_errhandler(comm, handler);
    if (code == MPI_SUCCESS)
        MPI_Comm_set_errhandler(*bond, handler);
    MPI_Errhandler_free(&handler);
    return code;
}

int cosched_worlds_spawn(const struct cosched_worlds *worlds, const struct cosched_plan *plan,
                         uint64_t generation, MPI_Comm *bond, char why[COSCHED_WHY_BYTES]) {
    struct command command;
    struct starts starts;
    int32_t ready, all_ready;
    int code = MPI_SUCCESS;
    *bond = MPI_COMM_NULL;
    if (plan->spawned == 0)
        return 0;
    ready = make_command(&command, generation) == 0;
    if (ready) {
        ready = make_starts(&starts, plan, command.words) == 0;
        if (!ready) {
            starts.count = 0;
            free_starts(&starts);
            free_command(&command);
        }
    }
    MPI_Allreduce(&ready, &all_ready, 1, MPI_INT32_T, MPI_MIN, worlds->comm);
    if (all_ready)
        code = spawn_quietly(worlds->comm, &starts, bond);
    if (ready) {
        free_starts(&starts);
        free_command(&command);
    }
    if (!all_ready)
        snprintf(why, COSCHED_WHY_BYTES, "a rank has no memory, or no /proc, to start ranks");
    if (code != MPI_SUCCESS)
        describe(code, why);
    return all_ready && code == MPI_SUCCESS ? 0 : -ECHILD;
}

/* --- the union -------------------------------------------------------------------------------- */

/* The numbers of a welcome; its arrays follow. */
struct head {
    uint64_t generation, prepared_bytes;
    int64_t step;
    uint32_t before, spawned, after, ended;
    struct cosched_times times;
};

/* What all ranks need memory for, before they exchange a welcome. */
struct room {
    struct cosched_spot *spots; /* of all ranks of the union */
    struct cosched_bond *bonds; /* those of this rank, and a new one */
    uint64_t *worlds;           /* of the new one */
};

static void send_head(MPI_Comm comm, struct cosched_welcome *welcome) {
    struct cosched_plan *plan = &welcome->plan;
    struct head head;
    memset(&head, 0, sizeof head);
    head = (struct head){welcome->generation, welcome->prepared.count, welcome->step,
                         plan->before,        plan->spawned,           plan->after,
                         plan->ended,         welcome->times};
    MPI_Bcast(&head, sizeof head, MPI_BYTE, 0, comm);
    welcome->generation = head.generation;
    welcome->prepared.count = head.prepared_bytes;
    welcome->step = head.step;
    plan->before = head.before;
    plan->spawned = head.spawned;
    plan->after = head.after;
    plan->ended = head.ended;
    welcome->times = head.times;
}

/* Takes memory for a welcome that is to come. */
static bool take_welcome(struct cosched_welcome *welcome) {
    struct cosched_plan *plan = &welcome->plan;
    plan->order = calloc(plan->after, sizeof *plan->order);
    plan->ranks = calloc(plan->after, sizeof *plan->ranks);
    plan->ended_worlds = calloc((size_t)plan->ended + 1, sizeof *plan->ended_worlds);
    welcome->prepared.data = malloc(welcome->prepared.count + 1);
    return plan->order && plan->ranks && plan->ended_worlds && welcome->prepared.data;
}

static bool take_room(struct room *room, const struct cosched_worlds *worlds,
                      const struct cosched_plan *plan) {
    const size_t most = (size_t)plan->before + plan->after + plan->spawned + 1;
    room->spots = calloc(most, sizeof *room->spots);
    room->bonds = calloc((size_t)worlds->bond_count + 1, sizeof *room->bonds);
    room->worlds = calloc(most, sizeof *room->worlds);
    return room->spots && room->bonds && room->worlds;
}

static void free_room(struct room *room) {
    free(room->spots);
    free(room->bonds);
    free(room->worlds);
}

/* Returns 0, or -ECHILD in all ranks, with the line of one that fails. */
static int agree(MPI_Comm comm, bool fails, char *why) {
    struct {
        int value, rank;
    } mine = {fails, 0}, worst;
    MPI_Comm_rank(comm, &mine.rank);
    MPI_Allreduce(&mine, &worst, 1, MPI_2INT, MPI_MAXLOC, comm);
    if (!worst.value)
        return 0;
    MPI_Bcast(why, COSCHED_WHY_BYTES, MPI_BYTE, worst.rank, comm);
    return -ECHILD;
}

/* Gives all ranks the welcome with the places where the new ranks run in fact. */
static void send_welcome(MPI_Comm comm, struct cosched_welcome *welcome, struct room *room,
                         const struct cosched_spot *spot) {
    struct cosched_plan *plan = &welcome->plan;
    struct cosched_spot mine;
    memset(&mine, 0, sizeof mine);
    if (spot != NULL)
        mine = *spot;
    cosched_worlds_bcast(comm, plan->order, plan->after * sizeof *plan->order);
    cosched_worlds_bcast(comm, plan->ranks, plan->after * sizeof *plan->ranks);
    cosched_worlds_bcast(comm, plan->ended_worlds, plan->ended * sizeof *plan->ended_worlds);
    cosched_worlds_bcast(comm, welcome->prepared.data, welcome->prepared.count);
    MPI_Allgather(&mine, sizeof mine, MPI_BYTE, room->spots, sizeof mine, MPI_BYTE, comm);
    for (uint32_t i = 0; i < plan->after; i++)
        if (plan->order[i] >= plan->before)
            plan->ranks[i].spot = room->spots[plan->order[i]];
}

/* The new bond is to all worlds of the ranks before and after the change. */
static void add_bond(struct cosched_worlds *worlds, struct room *room, MPI_Comm comm,
                     const struct cosched_plan *plan) {
    struct cosched_bond bond = {comm, room->worlds, 0};
    for (uint32_t i = 0; i < worlds->count; i++)
        bond.worlds[bond.count++] = worlds->ranks[i].world;
    for (uint32_t i = 0; i < plan->after; i++)
        bond.worlds[bond.count++] = plan->ranks[i].world;
    for (uint32_t i = 0; i < plan->ended && worlds->count == 0; i++)
        bond.worlds[bond.count++] = plan->ended_worlds[i];
    for (uint32_t i = 0; i < worlds->bond_count; i++)
        room->bonds[i] = worlds->bonds[i];
    room->bonds[worlds->bond_count++] = bond;
    free(worlds->bonds);
    worlds->bonds = room->bonds;
    room->bonds = NULL;
    room->worlds = NULL;
}

static void split(struct cosched_union *one) {
    const struct cosched_plan *plan = &one->welcome.plan;
    int color = MPI_UNDEFINED, key = 0, rank;
    MPI_Comm_rank(one->comm, &rank);
    for (uint32_t i = 0; i < plan->after; i++)
        if (plan->order[i] == (uint32_t)rank) {
            color = 0;
            key = (int)i;
        }
    MPI_Comm_split(one->comm, color, key, &one->after);
}

/* Makes the union over a bond. is_new: this rank has the welcome yet to get. */
static int bind_worlds(struct cosched_worlds *worlds, MPI_Comm bond,
                       const struct cosched_spot *spot, struct cosched_union *one, bool is_new,
                       bool fails, char *why) {
    struct room room;
    int error;
    MPI_Intercomm_merge(bond, is_new, &one->comm);
    send_head(one->comm, &one->welcome);
    if (!take_room(&room, worlds, &one->welcome.plan) ||
        (is_new && !take_welcome(&one->welcome))) {
        fails = true;
        snprintf(why, COSCHED_WHY_BYTES, "a rank has no memory for a change");
    }
    error = agree(one->comm, fails, why);
    if (error != 0) {
        free_room(&room);
        MPI_Comm_free(&one->comm);
        MPI_Comm_disconnect(&bond);
        return error;
    }
    send_welcome(one->comm, &one->welcome, &room, spot);
    add_bond(worlds, &room, bond, &one->welcome.plan);
    free_room(&room);
    split(one);
    return 0;
}

int cosched_worlds_unite(struct cosched_worlds *worlds, MPI_Comm bond, struct cosched_union *one,
                         char why[COSCHED_WHY_BYTES]) {
    if (bond != MPI_COMM_NULL)
        return bind_worlds(worlds, bond, NULL, one, false, false, why);
    one->comm = worlds->comm;
    split(one);
    return 0;
}

int cosched_worlds_join(struct cosched_worlds *worlds, const struct cosched_spot *spot,
                        struct cosched_union *one, char why[COSCHED_WHY_BYTES]) {
    MPI_Comm bond;
    int error;
    memset(worlds, 0, sizeof *worlds);
    memset(one, 0, sizeof *one);
    MPI_Comm_get_parent(&bond);
    error = bind_worlds(worlds, bond, spot, one, true, spot == NULL, why);
    worlds->comm = error == 0 ? one->after : MPI_COMM_NULL;
    if (error != 0)
        cosched_welcome_free(&one->welcome);
    return error;
}

/* --- ending ----------------------------------------------------------------------------------- */

static bool ends(const struct cosched_bond *bond, const struct cosched_plan *plan) {
    for (uint32_t i = 0; i < bond->count; i++)
        for (uint32_t each = 0; each < plan->ended; each++)
            if (bond->worlds[i] == plan->ended_worlds[each])
                return true;
    return false;
}

/* Of UCX's library; without UCX in the process there is none. */
extern int ucs_global_opts_set_value(const char *name, const char *value) __attribute__((weak));

/* Lets UCX write errors only from now on, unless the user has chosen its level. MPICH closes the
 * connections of the own world only, and UCX warns of the others in MPI_Finalize. */
static void silence_warnings(void) {
    if (ucs_global_opts_set_value != NULL && getenv("UCX_LOG_LEVEL") == NULL)
        (void)ucs_global_opts_set_value("LOG_LEVEL", "error");
}

static void disconnect(struct cosched_bond *bond) {
    MPI_Comm_disconnect(&bond->comm);
    free(bond->worlds);
}

void cosched_worlds_settle(struct cosched_worlds *worlds, struct cosched_union *one) {
    struct cosched_plan *plan = &one->welcome.plan;
    uint32_t kept = 0;
    if (one->comm != worlds->comm)
        MPI_Comm_free(&one->comm);
    if (one->after != worlds->comm) /* a rank that has joined has no earlier one */
        MPI_Comm_free(&worlds->comm);
    worlds->comm = one->after;
    if (one->after == MPI_COMM_NULL)
        silence_warnings();
    for (uint32_t i = 0; i < worlds->bond_count; i++)
        if (ends(&worlds->bonds[i], plan))
            disconnect(&worlds->bonds[i]);
        else
            worlds->bonds[kept++] = worlds->bonds[i];
    worlds->bond_count = kept;
    free(worlds->ranks);
    worlds->ranks = plan->ranks;
    worlds->count = plan->after;
    plan->ranks = NULL;
    cosched_welcome_free(&one->welcome);
}

void cosched_welcome_free(struct cosched_welcome *welcome) {
    cosched_plan_free(&welcome->plan);
    free(welcome->prepared.data);
    memset(welcome, 0, sizeof *welcome);
}

void cosched_worlds_close(struct cosched_worlds *worlds) {
    if (worlds->comm != MPI_COMM_NULL)
        MPI_Comm_free(&worlds->comm);
    if (worlds->bonds != NULL) /* it had some */
        silence_warnings();
    for (uint32_t i = 0; i < worlds->bond_count; i++)
        disconnect(&worlds->bonds[i]);
    worlds->bond_count = 0;
}

void cosched_worlds_free(struct cosched_worlds *worlds) {
    for (uint32_t i = 0; i < worlds->bond_count; i++)
        free(worlds->bonds[i].worlds);
    free(worlds->bonds);
    free(worlds->ranks);
    memset(worlds, 0, sizeof *worlds);
}
