# SPDX-License-Identifier: Apache-2.0
declare -A count
words=()
for i in {1..30000}; do
    word="w$((i * 7919 % 1009))"
    words+=("$word")
    count[$word]=$((${count[$word]:-0} + 1))
done
echo "${#words[@]} ${#count[@]} ${words[*]: -3}"
total=0
for k in "${!count[@]}"; do total=$((total + count[$k])); done
echo "$total"
for i in {1..60}; do text=$(for j in {1..20}; do printf '%s,' "$((i * j))"; done); echo "$text"; done | md5sum
(cd /; trap 'echo subshell ends' EXIT; words=(); echo "${#words[@]}")
coproc UPPER { while read -r line; do echo "${line^^}"; done; }
for w in one two three; do echo "$w" >&"${UPPER[1]}"; read -r up <&"${UPPER[0]}"; echo "$up"; done
exec {UPPER[1]}>&-
diff <(seq 1 2000) <(seq 1 2 2000) | wc -l
wait
exit 7
