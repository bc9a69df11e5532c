# SPDX-License-Identifier: Apache-2.0
# What malloc_wrap's converter did, written anew from the two grammars (docs/reference/exporting.md): one pass over the raw text,
# one regular expression a line, a hash from each address, as text, to its id, and a line of text for each call. Plain
# Ruby as one writes it, neither tuned nor slowed.
#
#     ruby origin_converter.rb RAW CONVERTED

CALL = /\A(?:(x\h+) = )?(malloc|calloc|realloc|free)\(([^)]*)\);/
ROOM_FOR_COUNT = 20

abort "Usage: ruby origin_converter.rb RAW CONVERTED" unless ARGV.size == 2

ids = { "x0" => 0 }
ids.default_proc = proc { |known, address| known[address] = known.size }

File.open(ARGV[1], "w") do |out|
  out.puts " " * ROOM_FOR_COUNT # the number of ids is known at the end only
  File.foreach(ARGV[0]) do |line|
    next unless CALL =~ line
    result, function, operands = $1, $2, $3
    case function
    when "malloc"
      out.puts "m #{ids[result]} #{operands}"
    when "calloc"
      count, size = operands.split(", ")
      out.puts "c #{ids[result]} #{count} #{size}"
    when "realloc"
      old, size = operands.split(", ")
      out.puts "r #{ids[result]} #{ids[old]} #{size}"
    when "free"
      out.puts "f #{ids[operands]}"
    end
  end
  out.rewind
  out.print ids.size.to_s.ljust(ROOM_FOR_COUNT)
end

if ENV["ORIGIN_SAY_COLLECTIONS"]
  warn "#{GC.stat(:major_gc_count)} full and #{GC.stat(:minor_gc_count)} partial collections, #{ids.size} ids"
end
