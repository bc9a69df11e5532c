# SPDX-License-Identifier: Apache-2.0
# Sums, texts and lists by key, over lines of a number, a name and a fraction; what has grown long is cut short again.
{
    sum[$2] += $1
    text[$2] = text[$2] " " substr($3, 1, 7)
    seen[$1 % 20000, $2]++
    if (length(text[$2]) > 1500) {
        count = split(text[$2], parts)
        text[$2] = ""
        for (i = count - 20; i <= count; i++) text[$2] = text[$2] " " parts[i]
    }
    if (NR % 60000 == 0) {
        for (key in seen) if (seen[key] > 1) often++
        delete seen
    }
}
END {
    for (key in sum) {
        total += sum[key]
        gsub(/1/, "one", text[key])
        letters += length(toupper(text[key]))
    }
    print length(sum), total, letters, often
}
