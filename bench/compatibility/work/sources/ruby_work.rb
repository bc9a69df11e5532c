# SPDX-License-Identifier: Apache-2.0
rows = (1..40_000).map { |i| { "id" => i, "name" => "n" * (i % 40), "tags" => [i.to_s, (i * 7).to_s] } }
groups = rows.group_by { |r| r["id"] % 97 }.transform_values { |l| l.map { |r| r["name"] + r["tags"].join }.join(",") }
puts groups.values.map(&:length).sum, groups.values.join.sum
puts (1..4).map { |t| Thread.new { (1..20_000).map { |i| (i * t).to_s.reverse }.join.hash && t } }.map(&:value).inspect
reader, writer = IO.pipe
pid = fork { reader.close; rows.clear; GC.start; writer.puts "child #{groups.size}"; exit!(5) }
writer.close; puts reader.read; Process.wait(pid); puts $?.exitstatus
GC.compact if GC.respond_to?(:compact) rescue nil
puts `printf %s shell`
