-- SPDX-License-Identifier: Apache-2.0
-- Counts, sorts and joins made-up words; tables of tables, long strings, closures, a changing cache.
local seed = 42
local function draw(below)
    seed = (seed * 1103515245 + 12345) % 2147483648
    return seed // 65536 % below
end
local cache, order, first, total = {}, {}, 1, 0
for round = 1, tonumber(arg[1] or 8) do
    local words = {}
    for i = 1, 25000 do
        local word = string.char(97 + draw(26), 97 + draw(26), 97 + draw(26)) .. draw(40)
        local entry = words[word]
        if not entry then
            entry = {word = word, count = 0, places = {}}
            words[word] = entry
        end
        entry.count = entry.count + 1
        entry.places[#entry.places + 1] = i
    end
    local sorted = {}
    for _, entry in pairs(words) do sorted[#sorted + 1] = entry end
    table.sort(sorted, function(a, b) return a.count > b.count or a.count == b.count and a.word < b.word end)
    local lines = {}
    for i, entry in ipairs(sorted) do
        lines[#lines + 1] = entry.word:rep(draw(4) + 1, "-") .. ":" .. table.concat(entry.places, ",")
        if i % 5 == 0 then
            order[#order + 1] = entry.word .. round
            cache[order[#order]] = {entry, function() return entry.count + round end}
        end
    end
    local text = table.concat(lines, "\n")
    total = total + #text + select(2, text:gsub("(%a+)1", "%1"))
    while #order - first > 8000 do
        total = total + cache[order[first]][2]()
        cache[order[first]] = nil
        first = first + 1
    end
end
print(total)
