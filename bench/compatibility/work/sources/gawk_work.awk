# SPDX-License-Identifier: Apache-2.0
{ sum[$2] += $1; text[$2] = text[$2] substr($3, 1, 3); n[length($0)]++ }
END {
    for (k in sum) {
        total += sum[k]
        longest = length(text[k]) > longest ? length(text[k]) : longest
        gsub(/1/, "one", text[k])
    }
    print length(sum), total, longest
    PROCINFO["sorted_in"] = "@ind_num_asc"
    for (k in n) printf "%s:%s ", k, n[k]
    "echo from a shell" | getline line
    print line
}
