// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <regex>
#include <string>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>
template <int N> struct chain {
    using type = std::tuple<typename chain<N - 1>::type, std::integral_constant<int, N>>;
};
template <> struct chain<0> {
    using type = std::tuple<>;
};
template <typename... T> struct visitor : T... {
    using T::operator()...;
};
template <typename... T> visitor(T...) -> visitor<T...>;
int main() {
    std::map<std::string, std::vector<std::variant<int, std::string, double>>> table;
    for (int i = 0; i < 200000; i++) {
        auto &row = table["key" + std::to_string(i * 7919L % 5003)];
        if (i % 3 == 0) row.emplace_back(i);
        else if (i % 3 == 1) row.emplace_back(std::to_string(i));
        else row.emplace_back(i * 0.5);
    }
    double sum = 0;
    for (auto &[k, row] : table)
        for (auto &v : row)
            sum += std::visit(visitor{[](int i) { return (double)i; }, [](double d) { return d; },
                                      [](const std::string &s) { return (double)s.size(); }},
                              v);
    std::regex pattern("key([0-9]+)7");
    auto hits = std::count_if(table.begin(), table.end(),
                              [&](auto &p) { return std::regex_match(p.first, pattern); });
    std::vector<std::thread> threads;
    std::vector<std::unique_ptr<std::unordered_map<int, std::string>>> maps(4);
    for (int t = 0; t < 4; t++)
        threads.emplace_back([&maps, t] {
            maps[t] = std::make_unique<std::unordered_map<int, std::string>>();
            for (int i = 0; i < 30000; i++) (*maps[t])[i * (t + 1) % 9001] += "x";
        });
    for (auto &t : threads) t.join();
    std::cout << sum << ' ' << hits << ' ' << maps[3]->size() << ' ' << sizeof(chain<120>::type) << '\n';
    std::vector<int> order(100000);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), std::greater<>());
    try {
        throw std::runtime_error("thrown");
    } catch (std::exception &e) {
        std::cout << e.what() << order[0] << '\n';
    }
}
