// SPDX-License-Identifier: Apache-2.0
// Four threads, each with a cache that it empties from time to time.
#include <map>
#include <string>
#include <thread>
#include <vector>

static void serve(unsigned seed) {
    std::map<unsigned, std::string> cache;
    for (unsigned i = 0; i < 40000; i++) {
        seed = seed * 1103515245 + 12345;
        cache[seed >> 16 & 0xfff] = std::string(seed >> 20 & 0x3ff, 'x');
        if (i % 15000 == 14999) cache.clear();
    }
}

int main() {
    std::vector<std::thread> workers;
    for (unsigned n = 0; n < 4; n++) workers.emplace_back(serve, n);
    for (std::thread &worker : workers) worker.join();
}
