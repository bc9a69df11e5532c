// SPDX-License-Identifier: Apache-2.0
// A service for SECONDS: four threads answer requests, keep sessions of about 1 GB that expire, and at times make a report.
#include <chrono>
#include <cstdlib>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

using Clock = std::chrono::steady_clock;

struct Session {
    std::vector<std::string> items;
    std::map<unsigned, std::string> settings;
    unsigned expires;
};

static std::mutex lock;
static std::unordered_map<unsigned, Session> sessions;
static std::list<std::pair<unsigned, unsigned>> expiry;  // tick, session

static unsigned next(unsigned &draw) { return (draw = draw * 1103515245 + 12345) >> 8; }

static Session make_session(unsigned &draw) {
    Session made{};
    for (unsigned n = next(draw) % 40; n; n--) made.items.emplace_back(next(draw) % 900, 'i');
    for (unsigned n = next(draw) % 8; n; n--) made.settings[next(draw)] = std::string(next(draw) % 120, 's');
    return made;
}

static void answer(unsigned &draw, unsigned tick, unsigned life) {
    std::vector<std::string> page;
    for (unsigned row = next(draw) % 60; row; row--) page.emplace_back(next(draw) % 400, 'p');
    Session made = make_session(draw);
    std::lock_guard<std::mutex> hold(lock);
    unsigned id = next(draw) % 90000;
    made.expires = tick + life + next(draw) % life;
    expiry.emplace_back(made.expires, id);
    sessions[id] = std::move(made);
    for (int n = 0; n < 3 && !expiry.empty() && expiry.front().first <= tick; n++) {
        auto found = sessions.find(expiry.front().second);
        if (found != sessions.end() && found->second.expires <= tick) sessions.erase(found);
        expiry.pop_front();
    }
}

static void report(unsigned &draw) {
    std::map<std::string, std::vector<std::string>> groups;
    for (int row = 0; row < 60000; row++) {
        std::string key = "group " + std::to_string(next(draw) % 3000);
        groups[key].emplace_back(next(draw) % 300, 'r');
    }
}

static void work(unsigned worker, unsigned seconds) {
    unsigned draw = worker * 7919 + 1, life = seconds * 100 / 3;
    const auto begun = Clock::now();
    for (unsigned tick = 0; tick < seconds * 100; tick++) {
        std::this_thread::sleep_until(begun + std::chrono::milliseconds(10) * tick);
        bool busy = tick / (seconds * 10) % 3 != 2;  // two busy tenths of the time, then one that is quiet
        for (int request = busy ? 4 : 1; request; request--) answer(draw, tick, life);
        if (tick % (seconds * 12) == seconds * 3 * (worker + 1)) report(draw);
    }
}

int main(int, char **argv) {
    std::vector<std::thread> workers;
    for (unsigned n = 0; n < 4; n++) workers.emplace_back(work, n, atoi(argv[1]));
    for (std::thread &worker : workers) worker.join();
}
