#pragma once
// What the memory of this machine gives: the bound of everything that reads weights once.

namespace cellar::apps {

// GB/s of `threads` threads that read half a GiB in huge pages, best of a few rounds.
double read_bandwidth(int threads);

}  // namespace cellar::apps
