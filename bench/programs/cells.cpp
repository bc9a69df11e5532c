// SPDX-License-Identifier: Apache-2.0
// A grid of cells with particles that move, split and end: over-aligned types and sized deletes, as a C++17 compiler makes them.
//
//     cells [STEPS]
//
// Lists of particles are allocated with 32 or 64 bytes' alignment and freed with their size and alignment; names and
// notes are ordinary strings, freed with their size. Every so many steps the crowded half of the grid is emptied at
// once. Prints a sum that depends on all of it.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace {

struct alignas(32) Particle {
    float at[4], speed[4];
};

// A cache line of its own, as what several threads change would have.
struct alignas(64) Cell {
    std::vector<Particle> particles;
    std::string note;
    double weight = 0;
};

struct Event {
    virtual ~Event() = default;
    virtual double value() const = 0;
};

struct Move final : Event {
    float from[4], to[4];
    double value() const override { return to[0] - from[0]; }
};

struct Split final : Event {
    std::unique_ptr<Particle[]> parts;
    explicit Split(size_t count) : parts(new Particle[count]()) {}
    double value() const override { return static_cast<double>(parts[0].at[0]); }
};

class Grid {
  public:
    explicit Grid(unsigned side) : side_(side) {}

    double step(unsigned number) {
        for (unsigned i = 0; i < side_; i++) add(next() % (side_ * side_), number);
        move();
        if (number % 200 == 199) empty_the_crowded();
        double sum = 0;
        for (const auto &event : events_) sum += event->value();
        events_.clear();
        return sum;
    }

  private:
    unsigned next() {
        return static_cast<unsigned>((random_ = random_ * 6364136223846793005ULL + 1442695040888963407ULL) >>
                                     33);
    }

    void add(unsigned place, unsigned number) {
        auto &cell = cells_[place];
        if (!cell) cell = std::make_unique<Cell>();
        cell->particles.push_back(
            {{static_cast<float>(place), 0, 0, 1}, {1, static_cast<float>(next() % 7), 0, 0}});
        if (next() % 4 == 0)
            cell->note =
                "cell " + std::to_string(place) + " was last reached in step " + std::to_string(number);
    }

    void move() {
        for (auto &[place, cell] : cells_) {
            for (auto &particle : cell->particles) {
                auto made = std::make_unique<Move>();
                for (int i = 0; i < 4; i++) {
                    made->from[i] = particle.at[i];
                    made->to[i] = particle.at[i] += particle.speed[i] * 0.01F;
                }
                cell->weight += std::sqrt(std::fabs(made->value()));
                if (next() % 16 == 0) events_.push_back(std::move(made));
            }
            if (cell->particles.size() > 12) {
                events_.push_back(std::make_unique<Split>(cell->particles.size() / 3));
                cell->particles.resize(cell->particles.size() / 2);
                cell->particles.shrink_to_fit();
            }
        }
    }

    void empty_the_crowded() {
        for (auto at = cells_.begin(); at != cells_.end();)
            at = at->second->particles.size() > 4 ? cells_.erase(at) : std::next(at);
    }

    unsigned side_;
    unsigned long long random_ = 20817;
    std::map<unsigned, std::unique_ptr<Cell>> cells_;
    std::vector<std::unique_ptr<Event>> events_;
};

}  // namespace

int main(int argc, char **argv) {
    unsigned steps = argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 1000;
    Grid grid(60);
    double sum = 0;
    for (unsigned i = 0; i < steps; i++) sum += grid.step(i);
    std::printf("%.3f\n", sum);
}
