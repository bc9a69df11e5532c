"""The programs of the compatibility table that run once and end: what each needs, does and prints.

Every program does real work and prints something that depends on all of it, so that a call that went
wrong shows up in the output. Times, process ids and random keys are kept out of the output.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

BASH_SCRIPT = ("bash", "-eu", "run.sh")


@dataclass(frozen=True)
class Program:
    """One row. It runs in an empty folder, with $INPUT (what `prepare` made) and $PORT set."""

    name: str
    does: str
    needs: tuple[str, ...]  # names of executables
    packages: tuple[str, ...]  # of Debian, that bring them
    version: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = BASH_SCRIPT
    prepare: str = ""  # a bash script, run once and unrecorded in the folder $INPUT
    status: int = 0  # what the program ends with when all went well
    ignore: tuple[tuple[str, str], ...] = ()  # pattern and replacement: parts of the output that vary
    unprivileged: bool = False  # refuses to run as root
    out_of_reach: str = ""  # why the shim cannot see this one
    in_part: str = ""  # why it sees only some calls, so that anomalies are expected
    note: str = ""


BASH = r"""
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
"""

PYTHON = r"""
import hashlib, json, multiprocessing, subprocess, sys, threading

def records(n):
    return [{"id": i, "name": "n%d" % (i * 7919 % 1013), "tags": [str(i % k) for k in range(1, 9)]}
            for i in range(n)]

def work(seed, out):
    text = json.dumps(records(6000 + seed))
    out[seed] = hashlib.sha256(json.dumps(json.loads(text), sort_keys=True).encode()).hexdigest()

def square_sum(n):
    return sum(int(str(i) * 3) for i in range(n))

if __name__ == "__main__":
    out = {}
    threads = [threading.Thread(target=work, args=(i, out)) for i in range(4)]
    for t in threads: t.start()
    for t in threads: t.join()
    print(sorted(out.items()))
    for i in range(5):
        child = subprocess.run([sys.executable, "-c", "print(sum(map(int, input().split())))"],
                               input=" ".join(map(str, range(i * 1000))), capture_output=True, text=True)
        print(child.stdout.strip())
    with multiprocessing.Pool(3) as pool:
        print(pool.map(square_sum, range(2000, 20000, 2000)))
"""

PERL = r"""
use strict; use warnings;
my (%h, @a);
for my $i (1 .. 150_000) { $h{"k" . $i * 7919 % 50_021} .= chr(65 + $i % 26); push @a, $i ^ 0x55; }
my $text = join ",", map { "$_=$h{$_}" } sort keys %h;
print length($text), " ", scalar(@a), "\n";
my $n = 0; $n++ while $text =~ /k(\d+)5=([A-M]+)/g; print "$n\n";
my @sorted = sort { $b <=> $a } @a; print "@sorted[0..4]\n";
pipe(my $r, my $w) or die;
my $pid = fork() // die;
if (!$pid) { close $r; my %mine = map { $_ => $h{$_} } grep { /7$/ } keys %h; undef %h;
             print $w scalar(keys %mine), "\n"; close $w; exit 3 }
close $w; print "child: ", <$r>; waitpid($pid, 0); print $? >> 8, "\n";
print `echo from a shell | tr a-z A-Z`;
"""

RUBY = r"""
rows = (1..40_000).map { |i| { "id" => i, "name" => "n" * (i % 40), "tags" => [i.to_s, (i * 7).to_s] } }
groups = rows.group_by { |r| r["id"] % 97 }.transform_values { |l| l.map { |r| r["name"] + r["tags"].join }.join(",") }
puts groups.values.map(&:length).sum, groups.values.join.sum
puts (1..4).map { |t| Thread.new { (1..20_000).map { |i| (i * t).to_s.reverse }.join.hash && t } }.map(&:value).inspect
reader, writer = IO.pipe
pid = fork { reader.close; rows.clear; GC.start; writer.puts "child #{groups.size}"; exit!(5) }
writer.close; puts reader.read; Process.wait(pid); puts $?.exitstatus
GC.compact if GC.respond_to?(:compact) rescue nil
puts `printf %s shell`
"""

NODE = r"""
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const crypto = require('crypto'), zlib = require('zlib'), child = require('child_process');
function work(seed) {
  const rows = [];
  for (let i = 0; i < 40000; i++) rows.push({ id: i, name: 'n' + (i * seed) % 1013, tags: [i % 7, String(i)] });
  const text = JSON.stringify(JSON.parse(JSON.stringify(rows)));
  return crypto.createHash('sha256').update(zlib.gunzipSync(zlib.gzipSync(text))).digest('hex');
}
if (!isMainThread) { parentPort.postMessage(work(workerData)); }
else {
  const all = [2, 3, 5].map(n => new Promise((done, fail) => {
    const w = new Worker(__filename, { workerData: n });
    w.on('message', done); w.on('error', fail);
  }));
  Promise.all(all).then(list => {
    console.log(list.join('\n'), work(7));
    console.log(child.execSync('echo from a shell').toString().trim());
    crypto.pbkdf2('secret', 'salt', 50000, 32, 'sha256', (e, key) => console.log(key.toString('hex')));
  });
}
"""

JAVA = r"""
import java.util.*;
import java.util.concurrent.*;
import java.util.stream.*;
import java.util.zip.*;

public class Work {
    static long crc(int seed) {
        Map<String, List<Integer>> groups = new TreeMap<>();
        for (int i = 0; i < 60_000; i++)
            groups.computeIfAbsent("k" + (long) i * seed % 5003, k -> new ArrayList<>()).add(i);
        CRC32 crc = new CRC32();
        crc.update(groups.toString().getBytes());
        Deflater deflater = new Deflater();
        deflater.setInput(groups.toString().getBytes());
        deflater.finish();
        byte[] room = new byte[1 << 20];
        int n = deflater.deflate(room);
        deflater.end();
        return crc.getValue() ^ n;
    }

    public static void main(String[] args) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(4);
        List<Future<Long>> all = new ArrayList<>();
        for (int i = 1; i <= 8; i++) { int seed = i * 31; all.add(pool.submit(() -> crc(seed))); }
        for (Future<Long> one : all) System.out.println(one.get());
        pool.shutdown();
        Map<Integer, Long> counts = IntStream.range(0, 500_000).parallel().mapToObj(i -> "" + i)
            .collect(Collectors.groupingBy(s -> s.length(), Collectors.counting()));
        System.out.println(new TreeMap<>(counts));
        Process p = new ProcessBuilder("echo", "from a child").inheritIO().start();
        System.exit(p.waitFor() + 4);
    }
}
"""

GXX = r"""
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
template <int N> struct chain { using type = std::tuple<typename chain<N - 1>::type, std::integral_constant<int, N>>; };
template <> struct chain<0> { using type = std::tuple<>; };
template <typename... T> struct visitor : T... { using T::operator()...; };
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
                                      [](const std::string &s) { return (double)s.size(); }}, v);
    std::regex pattern("key([0-9]+)7");
    auto hits = std::count_if(table.begin(), table.end(), [&](auto &p) { return std::regex_match(p.first, pattern); });
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
    try { throw std::runtime_error("thrown"); } catch (std::exception &e) { std::cout << e.what() << order[0] << '\n'; }
}
"""

CLANG = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define ONE(n) static int f##n(const int *a, int c) { int s = n; \
    for (int i = 0; i < c; i++) { s += a[i] * n ^ (s >> 3); if (s % 7 == n % 7) s -= a[c - 1 - i]; } return s; }
#define TEN(n) ONE(n##0) ONE(n##1) ONE(n##2) ONE(n##3) ONE(n##4) ONE(n##5) ONE(n##6) ONE(n##7) ONE(n##8) ONE(n##9)
TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) TEN(6) TEN(7) TEN(8) TEN(9)
int main(void) {
    int n = 1000, total = 0;
    int **rows = malloc(sizeof *rows * n);
    for (int i = 0; i < n; i++) { rows[i] = calloc(n, sizeof **rows); for (int k = 0; k < n; k++) rows[i][k] = i ^ k; }
    for (int i = 0; i < n; i++) total += f10(rows[i], n) + f55(rows[i], n) + f99(rows[i], n);
    for (int i = 0; i < n; i++) free(rows[i]);
    free(rows);
    printf("%d\n", total);
}
"""

GIT = r"""
export GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z'
git config --global user.name Nobody
git config --global user.email nobody@invalid
git config --global pack.threads 1
git init -q -b main origin
cd origin
for i in 1 2 3 4 5 6 7 8; do
    mkdir -p "d$i"
    for k in $(seq 1 25); do seq "$i" "$k" $((k * 40 + i)) >"d$i/f$k"; done
    git add .
    git commit -q -m "Commit $i"
done
git checkout -q -b side HEAD~3
seq 1 500 >side.txt
git add . && git commit -q -m Side
git checkout -q main && git merge -q -m Merge side
cd ..
git clone -q --no-local origin copy
cd copy
git log --stat --format='%H %s' | md5sum
git diff HEAD~4 --stat | tail -1
git gc -q --aggressive --prune=now
git repack -q -a -d -f
git fsck --strict --no-progress
git grep -c 77 | md5sum
git blame d3/f7 | md5sum
git archive HEAD | tar -t | wc -l
git rev-parse HEAD
"""

SQLITE = r"""
CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT, value REAL);
CREATE INDEX by_name ON t(name);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
  INSERT INTO t SELECT i, printf('name-%d-%s', i * 7919 % 60000, hex(i)), i * 0.5 FROM n;
SELECT count(*), sum(value), max(name) FROM t;
SELECT substr(name, 1, 7) AS p, count(*), group_concat(id % 10) FROM t GROUP BY p ORDER BY p LIMIT 5;
UPDATE t SET name = name || '-x' WHERE id % 3 = 0;
DELETE FROM t WHERE id % 5 = 0;
VACUUM;
SELECT count(*), max(name), sum(length(json_object('n', name, 'v', value))) FROM t;
PRAGMA integrity_check;
"""

FIGURES_PY = r"""
import sys
state = 12345
def draw():
    global state
    state = (state * 1103515245 + 12345) % 2**31
    return state
for i in range(int(sys.argv[1])):
    print(draw() % 100000, "name%d" % (draw() % 5000), draw() / 7)
"""
MAKE_FIGURES = "cat >figures.py <<'END'\n" + FIGURES_PY + "END\n/usr/bin/env python3 figures.py {} >figures\n"

VIM = r"""
set nocompatible viminfo= nomore
edit $INPUT/figures
syntax on
%s/name\(\d\+\)/N\1!/g
g/^9/move 0
sort n
let counts = {}
for line in getline(1, '$')
  let key = split(line)[1][0:2]
  let counts[key] = get(counts, key, 0) + 1
endfor
call append(0, string(items(counts)))
normal! gg"ayy5"ap
undo
redo
write! out.txt
call writefile([string(line('$'))], 'count.txt')
qall!
"""

PHP = r"""<?php
$rows = [];
for ($i = 0; $i < 150000; $i++) $rows[] = ['id' => $i, 'name' => 'n' . ($i * 7919 % 1013), 'v' => $i / 3];
$groups = [];
foreach ($rows as $row) $groups[$row['name']][] = $row;
ksort($groups);
echo md5(json_encode(json_decode(json_encode($groups), true))), "\n";
echo preg_match_all('/n(\d+)5/', implode(' ', array_keys($groups))), "\n";
echo shell_exec('printf shell');
exit(9);
"""

PHP_XML = r"""
$tree = new SimpleXMLElement('<r/>');
foreach (array_slice($rows, 0, 3000) as $row) $tree->addChild('row', $row['name'])->addAttribute('id', $row['id']);
echo md5($tree->asXML());
"""

GO = r"""
package main

%s
import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync"
)

func work(seed int) string {
	rows := map[string][]int{}
	for i := 0; i < 100000; i++ {
		key := fmt.Sprint("k", i*seed%%5003)
		rows[key] = append(rows[key], i)
	}
	text, _ := json.Marshal(rows)
	return fmt.Sprintf("%%x", sha256.Sum256(text))
}

func main() {
	var all sync.WaitGroup
	out := make([]string, 4)
	for i := range out {
		all.Add(1)
		go func() { defer all.Done(); out[i] = work(i + 3) }()
	}
	all.Wait()
	fmt.Println(out)
%s
}
"""
CGO_IMPORT = r"""
/*
#include <stdlib.h>
#include <string.h>
static long churn(long n) {
	char *keep[64] = {0};
	long sum = 0;
	for (long i = 0; i < n; i++) {
		free(keep[i % 64]);
		keep[i % 64] = calloc(1, (size_t)(i % 700 + 1));
		sum += i % 700;
	}
	for (int i = 0; i < 64; i++) free(keep[i]);
	return sum;
}
*/
import "C"
"""
CGO_CALLS = r"""
	var calls sync.WaitGroup
	sums := make([]int64, 4)
	for i := range sums {
		calls.Add(1)
		go func() { defer calls.Done(); sums[i] = int64(C.churn(200000)) }()
	}
	calls.Wait()
	fmt.Println(sums)
"""
GO_BUILD = r"""
export GOCACHE="$INPUT/cache" GOPATH="$INPUT/path" GOTOOLCHAIN=local GOFLAGS=-mod=mod
printf 'module example\n\ngo 1.22\n' >go.mod
cat >main.go
go build -o work .
"""

RUST = r"""
use std::collections::{BTreeMap, HashMap};
use std::thread;

fn work(seed: usize) -> usize {
    let mut rows: HashMap<String, Vec<Box<usize>>> = HashMap::new();
    for i in 0..100_000 { rows.entry(format!("k{}", i * seed % 5003)).or_default().push(Box::new(i)); }
    let ordered: BTreeMap<_, _> = rows.into_iter().collect();
    ordered.iter().map(|(k, v)| k.len() * v.iter().map(|b| **b % 31).sum::<usize>()).sum()
}

fn main() {
    let all: Vec<_> = (3..7).map(|s| thread::spawn(move || work(s))).collect();
    let sums: Vec<usize> = all.into_iter().map(|t| t.join().unwrap()).collect();
    println!("{:?}", sums);
    let caught = std::panic::catch_unwind(|| { if sums_are_odd() { panic!("thrown") } });
    println!("{}", caught.is_err());
    std::process::exit(6);
}
fn sums_are_odd() -> bool { std::env::args().count() == 1 }
"""
RUST_IGNORE = ((r"thread 'main' \(\d+\)", "thread 'main' (N)"),)

AWK = r"""
{ sum[$2] += $1; text[$2] = text[$2] substr($3, 1, 3); n[length($0)]++ }
END {
    for (k in sum) { total += sum[k]; longest = length(text[k]) > longest ? length(text[k]) : longest; gsub(/1/, "one", text[k]) }
    print length(sum), total, longest
    PROCINFO["sorted_in"] = "@ind_num_asc"
    for (k in n) printf "%s:%s ", k, n[k]
    "echo from a shell" | getline line
    print line
}
"""

LUA = r"""
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
"""

JQ = """
import json
rows = [{"id": i, "name": "n%d" % (i * 7919 % 1013), "tags": ["t%d" % (i % k) for k in range(1, 6)]}
        for i in range(20000)]
json.dump(rows, open("rows.json", "w"))
"""

# heaptape's own sources: real ones that are always there.
BUILD_SELF = r"""
cmake -S "$SOURCE" -B tree -G '%s' -DCMAKE_BUILD_TYPE=Release >configured 2>&1
tail -n 2 configured | head -n 1 | cut -c 1-20
%s
tree/heaptape --version
"""

GDB = r"""
set pagination off
set print address off
break work
run
backtrace
print table[7]
finish
continue
info sharedlibrary libc
"""
GDB_C = r"""
#include <stdio.h>
#include <stdlib.h>
int table[100];
__attribute__((noinline)) int work(int n) { int s = 0; for (int i = 0; i < n; i++) s += table[i % 100]; return s; }
int main(void) { for (int i = 0; i < 100; i++) table[i] = i * i; char *p = malloc(100); printf("%d\n", work(1000)); free(p); return 4; }
"""

FFMPEG = r"""
ffmpeg -v error -nostdin -f lavfi -i testsrc2=duration=2:size=320x240:rate=25 -f lavfi -i sine=frequency=440:duration=2 \
    -c:v mpeg4 -q:v 5 -c:a ac3 -fflags +bitexact -flags:v +bitexact -flags:a +bitexact -threads 4 out.mkv
md5sum out.mkv
ffmpeg -v error -nostdin -i out.mkv -vf scale=160:120,hflip -f framemd5 -threads 4 - | md5sum
"""

MAGICK = r"""
convert-im6.q16 -size 600x400 plasma:red-blue -seed 7 -depth 8 in.png 2>/dev/null || true
convert-im6.q16 -size 700x500 gradient:navy-gold -swirl 120 -blur 0x3 -resize 60% -rotate 30 -depth 8 rgb:- | md5sum
convert-im6.q16 rose: -resize 400% -emboss 2 -quantize Lab -colors 32 -depth 8 txt:- | md5sum
convert-im6.q16 rose: -resize 300% rose.jpg
identify-im6.q16 -format '%m %w %h\n' rose.jpg
"""

OPENSSL = r"""
openssl speed -seconds 1 -bytes 1024 sha256 aes-128-cbc >speed.txt 2>&1
grep -c 1024 speed.txt
openssl genrsa -out key.pem 2048 2>/dev/null
openssl rsa -in key.pem -check -noout
openssl req -new -x509 -key key.pem -subj /CN=test -days 2 -out cert.pem
openssl verify -CAfile cert.pem cert.pem
openssl dgst -sha256 -sign key.pem -out signature "$INPUT/figures"
openssl rsa -in key.pem -pubout -out public.pem 2>/dev/null
openssl dgst -sha256 -verify public.pem -signature signature "$INPUT/figures"
openssl enc -aes-256-cbc -pbkdf2 -S 0011223344556677 -k secret -in "$INPUT/figures" | openssl dgst -sha512
"""

SSH_KEYGEN = r"""
for type in ed25519 ecdsa rsa; do
    ssh-keygen -q -t "$type" -N secret -C nobody -f "key_$type"
    ssh-keygen -y -P secret -f "key_$type" | cut -d ' ' -f 1
    ssh-keygen -l -f "key_$type.pub" | cut -d ' ' -f 1,3,4
done
ssh-keygen -p -q -P secret -N other -f key_rsa
ssh-keygen -p -q -P secret -N '' -f key_ed25519
ssh-keygen -Y sign -q -f key_ed25519 -n file <"$INPUT/figures" >signature
ssh-keygen -Y check-novalidate -n file -s signature <"$INPUT/figures" | cut -d ' ' -f 1-3
"""

ONE_SHOT = [
    Program("bash", "loops, arrays, subshells, a coprocess", ("bash",), ("bash",),
            ("bash", "--version"), {"run.sh": BASH}, ("bash", "run.sh"), status=7),
    Program("python3", "json in 4 threads, subprocess, a pool of forked workers", ("python3",),
            ("python3",), ("python3", "--version"), {"work.py": PYTHON}, ("python3", "work.py")),
    Program("perl", "hashes, regular expressions, fork", ("perl",), ("perl",),
            ("perl", "-e", "print substr $^V, 1"), {"work.pl": PERL}, ("perl", "work.pl")),
    Program("ruby", "hashes, threads, fork", ("ruby",), ("ruby",), ("ruby", "--version"),
            {"work.rb": RUBY}, ("ruby", "work.rb")),
    Program("node", "json, worker threads, zlib, crypto", ("node",), ("nodejs",),
            ("node", "--version"), {"work.js": NODE}, ("node", "work.js"),
            note="V8's heap is its own; recorded is what node and its libraries take from malloc"),
    Program("java", "javac, then collections in 4 threads", ("java", "javac"),
            ("default-jdk-headless",), ("java", "--version"), {
                "Work.java": JAVA, "run.sh": "javac Work.java\njava -Xmx512m Work\n"},
            status=4, note="the Java heap is the JVM's own; recorded is what the JVM takes from malloc"),
    Program("php", "arrays, json, regular expressions", ("php",), ("php-cli",), ("php", "--version"),
            {"work.php": PHP}, ("php", "-n", "-d", "memory_limit=-1", "work.php"), status=9,
            note="PHP keeps small blocks in chunks of its own"),
    Program("php with extensions", "the same and xml", ("php",), ("php-cli", "php-xml"),
            ("php", "--version"), {"work.php": PHP.replace("exit(9)", PHP_XML + "exit(8)")},
            ("php", "work.php"), status=8, in_part=(
                "PHP loads extensions with RTLD_DEEPBIND: what they free or allocate themselves goes "
                "to libc directly and is not seen")),
    Program("lua", "tables, strings, coroutines", ("lua5.4",), ("lua5.4",), ("lua5.4", "-v"),
            {"work.lua": LUA}, ("lua5.4", "work.lua"), status=3),
    Program("make with gcc", "heaptape configured by cmake and built by make -j2",
            ("cmake", "make", "gcc", "ld"), ("cmake", "make", "gcc"), ("gcc", "--version"),
            {"run.sh": BUILD_SELF % ("Unix Makefiles",
                                     "make -s -C tree -j2 heaptape >built 2>&1")}),
    Program("ninja with gcc", "the same by ninja -j2", ("cmake", "ninja", "gcc", "ld"),
            ("cmake", "ninja-build", "gcc"), ("ninja", "--version"),
            {"run.sh": BUILD_SELF % ("Ninja", "ninja -C tree -j2 heaptape >built 2>&1")}),
    Program("g++", "a file full of templates, and what it makes of it", ("g++",), ("g++",),
            ("g++", "--version"), {
                "work.cpp": GXX, "run.sh": "g++ -std=c++17 -O2 -g work.cpp -o work -pthread\n./work\n"}),
    Program("clang", "C with -O2, and what it makes of it", ("clang",), ("clang",),
            ("clang", "--version"), {
                "work.c": CLANG, "run.sh": "clang -O2 -g -Wno-everything work.c -o work\n./work\n"}),
    Program("rustc", "compiles a program", ("rustc",), ("rustc",), ("rustc", "--version"),
            {"work.rs": RUST, "run.sh": "rustc -O work.rs -o work\n./work 2>&1 || echo $?\n"},
            ignore=RUST_IGNORE),
    Program("rust program", "maps and boxes in 4 threads", ("rustc",), ("rustc",),
            ("rustc", "--version"), {}, ("../input/work",),
            f"cat >work.rs <<'END'\n{RUST}END\nrustc -O work.rs -o work\n", status=6,
            ignore=RUST_IGNORE),
    Program("go program with cgo", "goroutines that call C", ("go", "gcc"), ("golang-go", "gcc"),
            ("go", "version"), {}, ("../input/work",),
            "export CGO_ENABLED=1" + GO_BUILD.replace(
                "main.go", "main.go <<'END'\n" + GO % (CGO_IMPORT, CGO_CALLS) + "END"),
            note="Go's heap is its own; recorded is what the C part takes from malloc"),
    Program("go program", "goroutines, json", ("go",), ("golang-go",), ("go", "version"), {},
            ("../input/work",),
            "export CGO_ENABLED=0" + GO_BUILD.replace(
                "main.go", "main.go <<'END'\n" + GO % ("", "") + "END"),
            out_of_reach="statically linked, with an allocator of its own"),
    Program("git", "commits, merge, clone, gc, repack, fsck, blame", ("git",), ("git",),
            ("git", "--version"), {"run.sh": GIT}),
    Program("sqlite3", "inserts, an index, aggregates, VACUUM", ("sqlite3",), ("sqlite3",),
            ("sqlite3", "--version"), {"work.sql": SQLITE},
            ("sqlite3", "work.db", ".read work.sql")),
    Program("vim", "an ex script: substitute, sort, dictionaries, undo", ("vim",), ("vim",),
            ("vim", "--version"), {
                "work.vim": VIM,
                "run.sh": "vim -es -u NONE -S work.vim || echo $?\nmd5sum out.txt\ncat count.txt\n"},
            prepare=MAKE_FIGURES.format(8000)),
    Program("ffmpeg", "encodes and decodes 2 s of video and sound", ("ffmpeg",), ("ffmpeg",),
            ("ffmpeg", "-version"), {"run.sh": FFMPEG}),
    Program("imagemagick", "swirl, blur, quantize, jpeg", ("convert-im6.q16",), ("imagemagick",),
            ("convert-im6.q16", "--version"), {"run.sh": MAGICK}),
    Program("openssl", "speed, rsa keys, certificates, encryption", ("openssl",), ("openssl",),
            ("openssl", "version"), {"run.sh": OPENSSL}, prepare=MAKE_FIGURES.format(200_000)),
    Program("ssh-keygen", "three keys and a signature", ("ssh-keygen",), ("openssh-client",),
            ("ssh", "-V"), {"run.sh": SSH_KEYGEN}, prepare=MAKE_FIGURES.format(1000)),
    Program("tar and xz", "packs and unpacks /usr/include", ("tar", "xz"), ("tar", "xz-utils"),
            ("xz", "--version"), {"run.sh": (
                "tar -C /usr -cf - include/linux include/c++ | xz -1 -T2 >a.tar.xz\n"
                "xz -dc a.tar.xz | tar -tvf - | md5sum\nmkdir out; tar -C out -xJf a.tar.xz\n"
                "find out -type f | wc -l\n")}),
    Program("sort", "a large file by two keys, with files beside", ("sort",), ("coreutils",),
            ("sort", "--version"), {"run.sh": (
                "sort --parallel=4 -S 8M -T . -k 2,2 -k 1,1n \"$INPUT/figures\" | md5sum\n"
                "sort -u -k 2,2 \"$INPUT/figures\" | wc -l\n")},
            prepare=MAKE_FIGURES.format(400_000)),
    Program("coreutils", "find, xargs, sed, grep, uniq, join, split", ("find", "grep", "sed"),
            ("coreutils", "findutils", "grep", "sed"), ("sed", "--version"), {"run.sh": (
                "find /usr/include -name '*.h' -print0 | xargs -0 -n 200 grep -l define | wc -l\n"
                "sed -E 's/name([0-9]+)/\\1-&/g; /77/d; $!N; P; D' \"$INPUT/figures\" | md5sum\n"
                "cut -d ' ' -f 2 \"$INPUT/figures\" | sort | uniq -c | sort -rn | head -3\n"
                "split -n l/8 \"$INPUT/figures\" part.\nwc -l part.* | tail -1\n"
                "grep -cE '(name[0-9]*7 |99).*[13579]$' \"$INPUT/figures\"\n")},
            prepare=MAKE_FIGURES.format(100_000)),
    Program("gawk", "sums by key, substitutions, a pipe", ("gawk",), ("gawk",),
            ("gawk", "--version"), {"work.awk": AWK},
            ("gawk", "-f", "work.awk", "../input/figures"), MAKE_FIGURES.format(300_000)),
    Program("jq", "groups and sorts 20,000 objects", ("jq",), ("jq",), ("jq", "--version"), {},
            ("jq", "-c", "group_by(.name) | map({name: .[0].name, n: length, t: (map(.tags[]) | unique)})"
             " | sort_by(-.n) | .[0:20]", "../input/rows.json"),
            f"python3 - <<'END'\n{JQ}END\n"),
    Program("gdb", "a breakpoint, a backtrace, a run to the end", ("gdb", "gcc"), ("gdb", "gcc"),
            ("gdb", "--version"), {"work.gdb": GDB}, (
                "gdb", "-q", "-batch", "-nx", "-x", "work.gdb", "../input/work"),
            f"cat >work.c <<'END'\n{GDB_C}END\ngcc -g -O1 work.c -o work\n",
            ignore=((r"process \d+", "process N"), (r"0x[0-9a-f]+", "0x0"))),
    Program("file", "the types of all programs in /usr/bin", ("file",), ("file",),
            ("file", "--version"), {}, ("bash", "-c", "file /usr/bin/* | md5sum")),
    Program("man", "formats a page, under man's seccomp filter", ("man", "groff"), ("man-db",),
            ("man", "--version"), {"run.sh": (
                "for i in 1 2 3; do MANROFFOPT=-t man -l -Tutf8 \"$INPUT/page.1\" | md5sum; done\n")},
            prepare=r"""
python3 - >page.1 <<'END'
print('.TH PAGE 1\n.SH NAME\npage \\- a page')
for i in range(1500):
    print(f'.SS Part {i}\n.PP\nSome \\fBbold\\fR words and \\fIothers\\fR, {i} in all.\n.TP\n.B \\-o\nAn option.')
END
"""),
]
