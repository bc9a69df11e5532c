-- SPDX-License-Identifier: Apache-2.0
local words, text = {}, {}
for i = 1, 300000 do
    local w = "w" .. (i * 7919 % 5003)
    words[w] = (words[w] or 0) + 1
    if i % 10 == 0 then text[#text + 1] = w:rep(i % 5 + 1) end
end
local keys = {}
for k in pairs(words) do keys[#keys + 1] = k end
table.sort(keys)
local joined = table.concat(text, ",")
print(#keys, keys[1], #joined, select(2, joined:gsub("w(%d+)7", "%1")))
local co = coroutine.wrap(function() for i = 1, 100000 do coroutine.yield({i, tostring(i)}) end end)
local n = 0
for i = 1, 100000 do n = n + #co()[2] end
print(n)
os.exit(3, true)
