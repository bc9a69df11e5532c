# SPDX-License-Identifier: Apache-2.0
# Strings, arrays, hashes and a few large buffers: groups made-up words by their letters and writes what it finds as text.
random = Random.new(7)
letters = [*"a".."p"]
totals = []
(ARGV[0] || 6).to_i.times do |round|
  words = Array.new(30_000) { Array.new(random.rand(3..9)) { letters[random.rand(letters.size)] }.join }
  groups = words.group_by { |word| word.chars.sort.join }
  pages = groups.values.select { |group| group.size > 1 }.each_slice(40).map do |slice|
    slice.map { |group| "#{group.first.ljust(12)}#{group.uniq.join(", ").upcase} (#{group.size})" }.join("\n") * 3
  end
  text = pages.join("\f").gsub(/[AEIOU]{2}/) { |pair| pair.downcase.reverse }
  counts = Hash.new(0)
  text.scan(/\w+/) { |word| counts[word.hash % 5003] += 1 }
  totals << text.bytesize << counts.size << groups.size
  kept = (kept || []).push(pages.sample(50, random: random)).last(3)
end
puts totals.join(" ")
