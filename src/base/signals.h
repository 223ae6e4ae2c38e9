#pragma once
// Which thread gets the signals that people and other programs send.
#include <pthread.h>
#include <signal.h>

namespace cellar {

// While it lives, signals wait, or go to threads that do not block them. Threads that are started meanwhile block them all their lives.
class SignalsBlocked {
  public:
    // All but faults, which stay with the thread that caused them.
    SignalsBlocked() {
        sigset_t set;
        sigfillset(&set);
        for (int fault : {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGPROF}) sigdelset(&set, fault);
        pthread_sigmask(SIG_BLOCK, &set, &before_);
    }
    explicit SignalsBlocked(int signal) {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, signal);
        pthread_sigmask(SIG_BLOCK, &set, &before_);
    }
    ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    SignalsBlocked(const SignalsBlocked&) = delete;
    SignalsBlocked& operator=(const SignalsBlocked&) = delete;

  private:
    sigset_t before_;
};

}  // namespace cellar
