#pragma once
// A fixed team of threads that works through one job at a time.
//
// Thread rule: one thread owns the team and calls run(); it takes part in the work as member 0.
// Work is cut into pieces that are handed out by a counter, so a member that lost its core delays one piece only.
// Waiting members spin for at most 50 microseconds, then sleep: an idle team costs nothing.
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

namespace cellar {

class ThreadTeam {
  public:
    // Requires: threads >= 1. A team of one runs everything on the caller. Where the system refuses threads the team is smaller
    // than asked, and a warning says so: size() is what counts. Members leave signals that others send to the rest of the process.
    explicit ThreadTeam(int threads);
    ~ThreadTeam();
    ThreadTeam(const ThreadTeam&) = delete;
    ThreadTeam& operator=(const ThreadTeam&) = delete;

    [[nodiscard]] int size() const;

    // Calls body(piece, member) once for each piece in [0, pieces), on some member in [0, size()), and returns when all
    // are done; what the members wrote is visible to the caller then. Allocates nothing. A team of more members than
    // usable_cpus() does not spin. Requires: not called from inside a body; the body does not throw.
    template <class Body>
    void run(int64_t pieces, Body&& body) {
        run_erased(
            pieces, [](void* context, int64_t piece, int member) noexcept { (*static_cast<std::remove_reference_t<Body>*>(context))(piece, member); },
            const_cast<void*>(static_cast<const void*>(&body)));
    }

    // A team of one for what a member does inside a body with kernels that take a team. Only that member may use it meanwhile.
    ThreadTeam& alone(int member);

  private:
    ThreadTeam();
    using Erased = void (*)(void* context, int64_t piece, int member);
    void run_erased(int64_t pieces, Erased body, void* context);

    struct Shared;
    std::unique_ptr<Shared> shared_;
    std::vector<std::unique_ptr<ThreadTeam>> alone_;  // [size()]; none in a team that is one of these
};

// CPUs this process may use: the affinity mask, cut by the cgroup's quota, at least 1.
int usable_cpus();

}  // namespace cellar
