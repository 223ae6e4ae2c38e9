#pragma once
// Which thread gets the signals that people and other programs send.
#include <pthread.h>
#include <signal.h>

namespace cellar {

// While it lives, threads that are started leave signals to those that expect them. Faults stay with the thread that caused them.
class SignalsBlocked {
  public:
    SignalsBlocked() {
        sigset_t set;
        sigfillset(&set);
        for (int fault : {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGPROF}) sigdelset(&set, fault);
        pthread_sigmask(SIG_BLOCK, &set, &before_);
    }
    ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    SignalsBlocked(const SignalsBlocked&) = delete;
    SignalsBlocked& operator=(const SignalsBlocked&) = delete;

  private:
    sigset_t before_;
};

}  // namespace cellar
