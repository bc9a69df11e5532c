# SPDX-License-Identifier: Apache-2.0
find /usr/include -name '*.h' -print0 | xargs -0 -n 200 grep -l define | wc -l
sed -E 's/name([0-9]+)/\1-&/g; /77/d; $!N; P; D' "$INPUT/figures" | md5sum
cut -d ' ' -f 2 "$INPUT/figures" | sort | uniq -c | sort -rn | head -3
split -n l/8 "$INPUT/figures" part.
wc -l part.* | tail -1
grep -cE '(name[0-9]*7 |99).*[13579]$' "$INPUT/figures"
