// SPDX-License-Identifier: Apache-2.0
// Threads that answer small requests, and in a burst make a large report each, one after the other: what malloc keeps of it.
#include <chrono>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

static std::mutex database, lock;
static std::map<unsigned, std::string> sessions;  // at most 2,000

static void answer(unsigned draw, int rows) {
    auto next = [&draw] { return (draw = draw * 1103515245 + 12345) >> 16; };
    std::vector<std::string> page;
    for (int row = 0; row < rows; row++) {
        page.emplace_back(next() % 700, 'x');
        if (row % 20) continue;
        std::lock_guard<std::mutex> hold(lock);
        sessions[next() % 2000] = page.back();
    }
}

static void sleep(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

static void work(unsigned worker) {
    for (unsigned request = 0;; request++) {
        sleep(10);
        answer(worker * 1000 + request, 20);
        if (request != 60 + worker) continue;
        std::lock_guard<std::mutex> hold(database);
        answer(request, 10000);  // the report
    }
}

int main() {
    for (unsigned n = 0; n < 32; n++) std::thread(work, n).detach();
    sleep(3000);
    std::_Exit(0);
}
