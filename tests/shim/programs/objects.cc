/*
 * objects - in C++: threads pass containers around a ring, each in its own communicator. MPI's
 * errors become exceptions, which cross MPI's calls and leave threads.
 */
#include <mpi.h>

#include <cstdio>
#include <exception>
#include <future>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kThreads = 2;
constexpr int kRounds = 6;

class Error : public std::runtime_error {
  public:
    explicit Error(int code) : std::runtime_error(text(code)) {
        MPI_Error_class(code, &error_class);
    }
    int error_class = MPI_SUCCESS;

  private:
    static std::string text(int code) {
        char buffer[MPI_MAX_ERROR_STRING];
        int length = 0;
        MPI_Error_string(code, buffer, &length);
        return std::string(buffer, static_cast<size_t>(length));
    }
};

void check(int code) {
    if (code != MPI_SUCCESS)
        throw Error(code);
}

void require(bool holds, const std::string &what) {
    if (!holds)
        throw std::logic_error(what);
}

/* A communicator that ends with its scope, also when an exception leaves it. */
class Communicator {
  public:
    explicit Communicator(MPI_Comm from) {
        check(MPI_Comm_dup(from, &comm_));
        check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN));
        check(MPI_Comm_rank(comm_, &rank));
        check(MPI_Comm_size(comm_, &size));
    }
    Communicator(const Communicator &) = delete;
    Communicator &operator=(const Communicator &) = delete;
    ~Communicator() { MPI_Comm_free(&comm_); }

    template <typename T> void send(const std::vector<T> &what, int to, int tag) const {
        check(MPI_Ssend(what.data(), bytes_of<T>(what.size()), MPI_BYTE, to, tag, comm_));
    }

    /* As many as the sender had. */
    template <typename T> std::vector<T> receive(int from, int tag) const {
        MPI_Message message;
        MPI_Status status;
        int bytes = 0;
        check(MPI_Mprobe(from, tag, comm_, &message, &status));
        check(MPI_Get_count(&status, MPI_BYTE, &bytes));
        require(bytes % static_cast<int>(sizeof(T)) == 0, "part of an element");
        std::vector<T> what(static_cast<size_t>(bytes) / sizeof(T));
        check(MPI_Mrecv(what.data(), bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE));
        return what;
    }

    /* MPI's error if more came than there is room for. */
    void receive_into(std::vector<char> &room, int from, int tag) const {
        check(MPI_Recv(room.data(), bytes_of<char>(room.size()), MPI_CHAR, from, tag, comm_,
                       MPI_STATUS_IGNORE));
    }

    int rank = 0, size = 0;

  private:
    template <typename T> static int bytes_of(size_t count) {
        return static_cast<int>(count * sizeof(T));
    }
    MPI_Comm comm_ = MPI_COMM_NULL;
};

std::vector<double> content(int rank, int thread, int round) {
    std::vector<double> numbers(static_cast<size_t>((round * 977 + thread * 31) % 5000));
    std::iota(numbers.begin(), numbers.end(), rank * 1000.0 + round);
    return numbers;
}

/* Around the ring; the sum of all that came. */
double pass_on(const Communicator &comm, int thread) {
    const int next = (comm.rank + 1) % comm.size;
    const int before = (comm.rank + comm.size - 1) % comm.size;
    double sum = 0;
    for (int round = 0; round < kRounds; round++) {
        auto sending = std::async(std::launch::async, [&] {
            comm.send(content(comm.rank, thread, round), next, round);
        });
        const auto got = comm.receive<double>(before, round);
        require(got == content(before, thread, round), "round " + std::to_string(round));
        sending.get();
        sum = std::accumulate(got.begin(), got.end(), sum);
    }
    return sum;
}

/* A message that is too long for who receives it: its exception leaves the thread. */
void overflow(const Communicator &comm) {
    const int next = (comm.rank + 1) % comm.size;
    const int before = (comm.rank + comm.size - 1) % comm.size;
    auto sending = std::async(std::launch::async, [&] {
        comm.send(std::vector<char>(100, 'x'), next, 99);
    });
    std::vector<char> room(10);
    try {
        comm.receive_into(room, before, 99);
    } catch (...) {
        sending.get();
        throw;
    }
    sending.get();
}

int run() {
    std::vector<std::promise<double>> sums(kThreads);
    std::vector<std::thread> threads;
    const Communicator world(MPI_COMM_WORLD);
    std::vector<std::unique_ptr<Communicator>> own;
    for (int i = 0; i < kThreads; i++)
        own.push_back(std::make_unique<Communicator>(MPI_COMM_WORLD));
    for (int i = 0; i < kThreads; i++)
        threads.emplace_back([&, i] {
            try {
                sums[static_cast<size_t>(i)].set_value(pass_on(*own[static_cast<size_t>(i)], i));
                overflow(*own[static_cast<size_t>(i)]);
            } catch (const Error &error) {
                require(error.error_class == MPI_ERR_TRUNCATE, error.what());
            }
        });
    for (auto &thread : threads)
        thread.join();
    std::string line = std::to_string(world.rank) + ":";
    for (auto &sum : sums)
        line += " " + std::to_string(sum.get_future().get());
    /* By rank 0 alone: with several writers a line could be cut by another's. */
    if (world.rank != 0) {
        world.send(std::vector<char>(line.begin(), line.end()), 0, 1);
        return 0;
    }
    std::puts(line.c_str());
    for (int rank = 1; rank < world.size; rank++) {
        const auto theirs = world.receive<char>(rank, 1);
        std::puts(std::string(theirs.begin(), theirs.end()).c_str());
    }
    return 0;
}

} // namespace

int main(int argc, char **argv) {
    int level = 0, failed = 1;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    try {
        require(level == MPI_THREAD_MULTIPLE, "no threads");
        failed = run();
    } catch (const std::exception &error) {
        std::fprintf(stderr, "FAIL: %s\n", error.what());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    return failed;
}
